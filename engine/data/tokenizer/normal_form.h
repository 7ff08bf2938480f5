// Unicode's normal forms, with the places that Hugging Face `tokenizers` gives to what they write.
#pragma once

#include "engine/data/tokenizer/traced_text.h"

namespace recollect {

void apply_normal_form(const Characters& characters, NormalForm form, TracedText& text);

}  // namespace recollect
