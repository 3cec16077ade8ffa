"""The data plane: HAProxy carries what the load balancers of ELBv2 would carry on AWS.

After every change `reading` takes a picture (`model`) of the balancers of those accounts whose `traffic` is on,
`configuration` writes down what HAProxy is to do, `proxy` makes it do so without losing a request, `names` tells the
DNS where the balancers are, and `health` tells ELBv2 how the targets are. `engine` runs all this.
"""
