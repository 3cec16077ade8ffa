"""LocalStack, made as strict as AWS about load balancers and as unreliable as a test wants it.

A call passes through `calls`: it is written to the `journal`, its caller is identified (`identity`), a fault may
strike it (`faults`), its rate (`throttling`) and permissions (`permissions`) are checked, and then `provider` answers
it from the records of its account (`fleet`, `records`). `admin` holds the routes under `/_causeway` that tests use to
read and steer all this.
"""
