package inspect

import "cmp"

// position orders what the store wrote: the epoch, and the number within it.
type position struct{ epoch, number uint64 }

func (p position) compare(other position) int {
	return cmp.Or(cmp.Compare(p.epoch, other.epoch), cmp.Compare(p.number, other.number))
}
