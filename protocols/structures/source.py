"""Where the structures come from."""

RNVM = "Ma et al., An Efficient Framework for Implementing Persistent Data Structures on Remote NVM, 2018"
