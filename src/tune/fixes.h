#include <stoke/diagnose.h>
int stk_fixes_find(stoke_fixes *out, const stoke_costs *costs, uint32_t usable, uint64_t seed, const char *const not_here[STOKE_CAUSES], stoke_error *err);
