"""Labels and answers that would run as code or break the page if text were used as markup."""

from __future__ import annotations

HOSTILE = (
    "<script>window.hacked='script'</script>",
    '"><img src=x onerror="window.hacked=\'image\'">',
    "</script><b id=injected>bold</b><script>window.hacked='close'</script>",
    "${window.hacked='template'} {{ 7 * 7 }} {% raw %}",
    "<!-- ' \" ` --><svg/onload=window.hacked='svg'>",
    "javascript:window.hacked='link'",
    "a&lt;b &amp; c\u2028\u2029\x01 d \u202egnp.exe \u2067",
)
"""Each must be shown unchanged."""
