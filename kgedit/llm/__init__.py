"""Language models: loading, prompting, decoding, judging, and access to their layers for editors."""

import logging

# peft and sentence-transformers import it if installed; on a CPU it warns about a kernel that kgedit does not use.
logging.getLogger("bitsandbytes").setLevel(logging.ERROR)
# bitsandbytes makes torch import its compiler, which warns where Triton is missing. kgedit compiles nothing with it.
logging.getLogger("torch.utils.flop_counter").setLevel(logging.ERROR)
