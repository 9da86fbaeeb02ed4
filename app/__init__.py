"""The user interface: command line, results folder, report. Everything that people see of rpsim is made here."""
