"""PCI Express between adapter and host: the link, its flow-control credits, root ports, devices beside the memory.

A transfer is cut into TLPs; a link answers when each is through. Behind the link ``models.host`` takes a write on.
"""
