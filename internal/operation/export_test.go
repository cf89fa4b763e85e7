package operation

import "time"

// Impatient makes x wait for objects to go, and for kinds to appear, no longer than limit.
func Impatient(x *Executor, limit time.Duration) { x.goneWithin, x.appearWithin = limit, limit }
