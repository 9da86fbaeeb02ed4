"""PCI Express between adapter and host: the link, its flow-control credits, root ports, devices beside the memory.

A transfer is cut into TLPs; a link answers when each is through. What a write becomes behind it is the host's business.
"""
