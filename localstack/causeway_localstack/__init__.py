"""LocalStack, made as strict as AWS about load balancers and as unreliable as a test wants it.

A call passes through `calls`: it is written to the `journal`, its caller is identified (`identity`), a fault may
strike it (`faults`), its permissions are checked (`permissions`), and then `provider` answers it. `admin` holds the
routes under `/_causeway` that tests use to read and steer all this.
"""
