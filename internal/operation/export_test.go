package operation

import "time"

// Impatient sets the maximum time for which x waits for deletions and for new kinds.
func Impatient(x *Executor, limit time.Duration) { x.goneWithin, x.appearWithin = limit, limit }
