package inspect

import "cmp"

// position is the position of a record in the order in which the records were written: its epoch, and
// its number in the epoch.
type position struct{ epoch, number uint64 }

func (p position) compare(other position) int {
	return cmp.Or(cmp.Compare(p.epoch, other.epoch), cmp.Compare(p.number, other.number))
}
