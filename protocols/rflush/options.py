"""What may be chosen of the calls: what the paper leaves open, and what its authors' public code does otherwise.

The public code is CGCL-codes/PRDMA, revision 0426c57. The preset ``public code`` takes all that it does otherwise:
``farm[as=public code]``. How a thread waits for completions is none of it: the public code sleeps, a scenario says so
by ``roles: {client: {waits: sleep}}``.
"""

from __future__ import annotations

from ..naming import Option

PUBLIC_CODE = "public code"
"""The preset."""
RESENT = "section 5.4: a traditional RPC system sends a call again after 100 ms without an answer"

FLUSH = Option(
    "all lines", choices=("all lines", "one line"), presets={PUBLIC_CODE: "one line"},
    source="section 3 says that data are flushed; public code (CGCL-codes/PRDMA, 0426c57): one line",
    text="how much of an object the server flushes",
)  # fmt: skip
REPEATS = Option(
    "answered", choices=("answered", "executed"),
    source="the paper is silent; answered: eRPC (NSDI'19), section 5.3; executed: a server that keeps nothing",
    text="what the server does with a call that it has answered before",
)  # fmt: skip
RESEND = Option(
    None, quantity="time", source=RESENT,
    text="after how long without a reply the client sends a call again, as long as there is none; by default never",
)  # fmt: skip
RESEND_LOST = Option(
    "100 ms", quantity="time", source=f"the paper has no time for lost messages; {RESENT}",
    text="after how long without a reply the client sends a call again, as long as there is none",
)  # fmt: skip
COMPLETION = Option(
    "unsignaled", choices=("unsignaled", "awaited"), presets={PUBLIC_CODE: "awaited"},
    source="the paper is silent; public code (CGCL-codes/PRDMA, 0426c57): waits for its first WRITE",
    text="whether the client waits for the completion of its WRITE before it goes on",
)  # fmt: skip
REPLY = Option(
    "data", choices=("data", "object"), presets={PUBLIC_CODE: "object"},
    source="the paper is silent; public code (CGCL-codes/PRDMA, 0426c57): replies, READs too, of an object's size",
    text="whether a reply is as long as its data, or always as an object",
)  # fmt: skip
COPIES = Option(
    0, at_least=0, at_most=8, presets={PUBLIC_CODE: 2},
    source="the paper is silent; public code (CGCL-codes/PRDMA, 0426c57): the message is built, then copied twice",
    text="how often the client copies a message before it leaves",
)  # fmt: skip
WORK = Option(
    "done", choices=("done", "skipped"), presets={PUBLIC_CODE: "skipped"},
    source="section 5.2: 100 us are injected; public code (CGCL-codes/PRDMA, 0426c57): not in this system's handler",
    text="whether the server does the work that a workload injects (`work`)",
)  # fmt: skip
MODEL = Option(
    "register", choices=("register", "append"),
    source="register: section 3, data are copied to the target memory space; append: shows what a put hides",
    text="what an object is: a register that a put overwrites in place, or a list that an append adds to",
)  # fmt: skip

# of durable calls -----------------------------------------------------------------------------------------------------
WORK_OF_WRITES = Option(
    "done", choices=("done", "skipped"), presets={PUBLIC_CODE: "skipped"},
    source="section 5.2: 100 us are injected; public code (CGCL-codes/PRDMA, 0426c57): compiled out for writes",
    text="whether the server does the work that a workload injects (`work`) for writes too",
)  # fmt: skip
SLOTS = Option(
    4, at_least=1, at_most=1024, source="public code (CGCL-codes/PRDMA, 0426c57): 4; the paper gives no number",
    text="how many entries a connection's log has",
)  # fmt: skip
ONE_SLOT = Option(
    4, at_least=1, at_most=1024, presets={PUBLIC_CODE: 1}, text=SLOTS.text,
    source="public code (CGCL-codes/PRDMA, 0426c57): 4, of which RFlush uses one; the paper gives no number",
)  # fmt: skip
OPERATOR = Option(
    "behind", choices=("behind", "together"), presets={PUBLIC_CODE: "together"},
    source="behind: section 4.2; together: the public code, which has a valid byte as the last of one WRITE",
    text="whether an entry's operator is written behind its data, or with them",
)  # fmt: skip
BATCHING = Option(
    "on", choices=("on", "off"), source="on: section 4.3, figure 6b; off: figure 6a",
    text="whether the requests of a batch are one call, with one WRITE and one flush, or a call each",
)  # fmt: skip
EXECUTED = Option(
    "durable", choices=("durable", "seen"),
    source="the paper is silent (section 4.2); durable: the reading under which its claim holds",
    text="whether the server flushes an entry's operator before it executes the call, or executes what it sees",
)  # fmt: skip
REMOVAL = Option(
    "durable", choices=("durable", "stored"),
    source="section 4.2: removed once the RPC has finished; durable: the reading under which its claim holds",
    text="whether the removal of an entry is flushed before its slot is free",
)  # fmt: skip
APPLIED = Option(
    "unsaid", choices=("unsaid", "said"),
    source="the paper has one completion, the flush's; said: a reading, by which that is a promise",
    text="whether the history says when a call has been executed: then its acknowledgement is judged as a promise",
)  # fmt: skip
OF_DURABLE_CALLS = {
    "slots": SLOTS, "operator": OPERATOR, "executed": EXECUTED, "removal": REMOVAL, "batching": BATCHING,
    "applied": APPLIED, "flush": FLUSH, "work": WORK_OF_WRITES, "model": MODEL,
}  # fmt: skip
