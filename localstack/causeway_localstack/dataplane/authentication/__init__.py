"""Actions that authenticate: who has logged in with OpenID Connect, and who brings a good JSON web token.

HAProxy asks before it carries a request to such a rule (`gate.lua`), `gate` answers: go on, perhaps with headers about
the user, or tell the client this instead. `login` is the way through the provider, `sessions` what is in cookies,
`tokens` the check of tokens, `calls` how providers are reached.
"""
