"""Push hints: what others send when something has changed becomes hints of the elements concerned.

`hub_links` finds the WebSub hub of a feed; `subscriptions` remembers what was asked of hubs; `subscriber`
asks them, and renews. `webhooks` reads what GitHub, GitLab and IndexNow send. `receiver` is the server that
all of them reach. Content that is sent is never kept: a hint makes a poll more likely, which looks itself.
"""

from .receiver import PushReceiver, Secrets

__all__ = ["PushReceiver", "Secrets"]
