"""The daemon side of Kineto on-demand tracing: the datagram protocol that dynolog speaks."""
