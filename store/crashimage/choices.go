package crashimage

import (
	"fmt"
	"math/rand/v2"
)

// A part is a range of bytes, of a write or of a content.
type part struct{ from, to int }

// A choice says which pending changes are on disk after a crash.
type choice struct {
	text  string
	parts func(i int) []part // the parts of change i that are on disk; empty if the change is lost
}

// choices returns sets of pending changes that a crash may leave on disk. Most of the sets test one change that is new
// since the last call: for example, one set has all changes except this change, and another set has only this change.
// An earlier call has returned such sets for the older changes. So in this call, only the random sets select the older
// changes individually.
func (d *disk) choices(o Options, chance *rand.Rand) (all []choice) {
	n, old := len(d.pending), d.pending[:d.known]
	add := func(chosen func(i int) bool, torn, cut int, format string, args ...any) {
		parts := d.ordered(chosen)
		all = append(all, choice{fmt.Sprintf(format, args...), func(i int) []part {
			if i == torn {
				return []part{{0, cut}}
			}
			return parts(i)
		}})
	}
	for k := range n + 1 {
		if k >= len(old) {
			add(func(i int) bool { return i < k }, -1, 0, "the first %d of %d changes are on disk", k, n)
		}
	}
	for j, c := range d.pending[len(old):] {
		j += len(old)
		what := fmt.Sprintf("change %d of %d (%s)", j+1, n, c)
		add(func(i int) bool { return i != j }, -1, 0, "%s is lost", what)
		add(func(i int) bool { return i == j }, -1, 0, "only %s is on disk", what)
		if c.file == 0 {
			continue
		}
		add(func(i int) bool { return i == j || d.pending[i].file == 0 }, -1, 0, "of the files, only %s is on disk", what)
		for cut := sector - int(c.offset%sector); cut < len(c.data); cut += sector {
			add(func(i int) bool { return i < j }, j, cut, "%s is cut at byte %d, and all later changes are lost", what, cut)
			add(func(int) bool { return true }, j, cut, "%s is cut at byte %d", what, cut)
		}
	}
	if o.Most > 0 && len(all) > o.Most {
		chance.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
		all = all[:o.Most]
	}
	for k := range o.Subsets {
		parts := make([][]part, n)
		kept := d.ordered(func(int) bool { return chance.IntN(2) == 0 })
		for i := range parts {
			if parts[i] = kept(i); parts[i] == nil && d.pending[i].file != 0 && chance.IntN(2) == 0 {
				parts[i] = someSectors(d.pending[i], chance)
			}
		}
		all = append(all, choice{fmt.Sprintf("random subset %d of the %d changes", k, n), func(i int) []part { return parts[i] }})
	}
	d.known = n
	return all
}

// ordered returns a function for the field parts of a [choice]. The function chosen says which changes
// the choice has. A chosen change of a file is on disk completely. Changes of names reach the disk in order, so a
// chosen change of a name is lost if an earlier change of a name is not chosen.
func (d *disk) ordered(chosen func(i int) bool) func(i int) []part {
	kept, journal := make([]bool, len(d.pending)), true
	for i, p := range d.pending {
		kept[i] = chosen(i)
		if p.file == 0 {
			journal = journal && kept[i]
			kept[i] = journal
		}
	}
	return func(i int) []part {
		if !kept[i] {
			return nil
		}
		return []part{{0, len(d.pending[i].data)}}
	}
}

// someSectors returns a random selection of the sectors of a write.
func someSectors(c change, chance *rand.Rand) (parts []part) {
	for from := 0; from < len(c.data); {
		to := min(len(c.data), from+sector-int((c.offset+int64(from))%sector))
		if chance.IntN(2) == 0 {
			parts = append(parts, part{from, to})
		}
		from = to
	}
	return parts
}

// String describes the change.
func (c change) String() string {
	switch c.kind { //nolint:exhaustive // other kinds change nothing
	case write:
		return fmt.Sprintf("%d bytes at %d of %s", len(c.data), c.offset, c.name)
	case truncate:
		return fmt.Sprintf("length %d of %s", c.offset, c.name)
	case extend:
		return fmt.Sprintf("length of at least %d of %s", c.offset, c.name)
	case create:
		return "creation of " + c.name
	case remove:
		return "removal of " + c.name
	case link:
		return fmt.Sprintf("link of %s to %s", c.name, c.other)
	case rename:
		return fmt.Sprintf("rename of %s to %s", c.name, c.other)
	}
	return "no change"
}
