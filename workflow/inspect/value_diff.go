package inspect

import (
	"bytes"
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"addon-operator/store"
)

// A ValueDiffRequest selects a section of the values and a span of time.
type ValueDiffRequest struct {
	// Section is the key of the section in the values.
	Section string
	// The comparison begins at the end of the run with the number From. If that run has not ended, the comparison begins
	// now. If From is zero, the diff has only the changes of one run: the run with the last attempt that changed a value
	// of the section. The comparison then begins at the first such attempt of this run.
	From uint64
	// The comparison ends at the end of the run with the number To. If To is zero, or if that run has not ended, the
	// comparison ends now.
	To uint64
}

// A ValueDiff has the differences of the values of a section between two times.
type ValueDiff struct {
	// The values are compared between the times Since and Until. Since is zero if the field From of
	// the request is zero, and the history has no change of a value of the section before Until.
	Since time.Time `json:"since,omitzero"`
	Until time.Time `json:"until,omitzero"`
	// Changes is sorted by path. Changes omits paths that have their old value again.
	Changes []ValueDiffChange `json:"changes"`
	// More is the number of changes that were counted but not stored, because an attempt changed
	// many values. The changes that are not stored can belong to other sections.
	More int `json:"more,omitempty"`
}

// A ValueDiffChange is a path with its value before and after.
type ValueDiffChange struct {
	store.ValueChange
	// At is the time of the last attempt that changed the value, and Run and By are the run and the
	// step of that attempt.
	At  time.Time `json:"at"`
	Run uint64    `json:"run"`
	By  string    `json:"by"`
}

// ReadValueDiff returns the differences of the values of a section between two times. ReadValueDiff
// omits attempts whose records cannot be read. It returns ErrNoRun if the store does not have one of
// the runs, and another error if the comparison would end before it begins.
func ReadValueDiff(tx *store.Tx, req ValueDiffRequest) (ValueDiff, error) {
	diff := ValueDiff{Changes: []ValueDiffChange{}}
	changed, err := attemptsThatChange(tx, req.Section)
	if err != nil {
		return diff, err
	}
	if diff.Until, err = endOfRun(tx, req.To); err != nil {
		return diff, err
	}
	if req.From != 0 {
		if diff.Since, err = endOfRun(tx, req.From); err != nil {
			return diff, err
		}
	}
	if req.To != 0 && diff.Until.Before(diff.Since) {
		return diff, fmt.Errorf("run %d ended before run %d: name the earlier run first", req.To, req.From)
	}
	changed = slices.DeleteFunc(changed, func(a *store.Record) bool {
		return req.To != 0 && a.Ended.After(diff.Until) || req.From != 0 && !a.Ended.After(diff.Since)
	})
	if req.From == 0 && len(changed) > 0 {
		run := changed[len(changed)-1].Run
		changed = slices.DeleteFunc(changed, func(a *store.Record) bool { return a.Run != run })
		diff.Since = changed[0].Began
	}
	diff.compose(req.Section, changed)
	return diff, nil
}

// endOfRun returns the end of a run. endOfRun returns the time of tx if the run has not ended, or if run is 0.
func endOfRun(tx *store.Tx, run uint64) (time.Time, error) {
	if run == 0 {
		return tx.Now(), nil
	}
	w, ok, err := store.Load[store.Run](tx, store.RunKey(run))
	if err != nil {
		return time.Time{}, err
	}
	if !ok {
		return time.Time{}, fmt.Errorf("run %d: %w: it never existed, or its history was deleted", run, ErrNoRun)
	}
	if w.Ended.IsZero() {
		return tx.Now(), nil
	}
	return w.Ended, nil
}

// attemptsThatChange returns the attempts that changed values of a section, oldest first.
// attemptsThatChange includes attempts whose changes were not all stored.
func attemptsThatChange(tx *store.Tx, section string) (all []*store.Record, err error) {
	unreadable := &unreadable{tx: tx}
	type changed struct {
		position
		record *store.Record
	}
	var found []changed
	changes, path, more := []byte(`"changes":{`), []byte(`"path":"/`+section), []byte(`"more":`)
	for k, v := range tx.Skim(store.At(store.History)) {
		if _, v, ok := bytes.Cut(v, changes); !ok || !bytes.Contains(v, path) && !bytes.Contains(v, more) {
			continue
		}
		at, err := locate(k)
		if err != nil {
			continue
		}
		l, err := loadLine(tx, k)
		if err != nil {
			if err := unreadable.pass(err); err != nil {
				return nil, err
			}
			continue
		}
		if l.Changes != nil && (l.Changes.More > 0 || slices.ContainsFunc(l.Changes.List, func(c store.ValueChange) bool { return inSection(c.Path, section) })) {
			found = append(found, changed{at.position, &l.Record})
		}
	}
	slices.SortFunc(found, func(a, b changed) int { return a.compare(b.position) })
	for _, c := range found {
		all = append(all, c.record)
	}
	return all, nil
}

// inSection reports whether the JSON pointer path points to the section or to a value in it.
func inSection(path, section string) bool {
	return path == "/"+section || strings.HasPrefix(path, "/"+section+"/")
}

// compose merges the changes of attempts, which must be sorted, oldest first. For each path, compose keeps the first
// old value and the last new value.
func (d *ValueDiff) compose(section string, attempts []*store.Record) {
	byPath := map[string]*ValueDiffChange{}
	for _, a := range attempts {
		d.More += a.Changes.More
		for _, c := range a.Changes.List {
			if !inSection(c.Path, section) {
				continue
			}
			composed := byPath[c.Path]
			if composed == nil {
				composed = &ValueDiffChange{ValueChange: c}
				byPath[c.Path] = composed
			}
			composed.New, composed.At, composed.Run = c.New, a.Ended, a.Run
			composed.By = strings.TrimSpace(a.Node + " " + a.Subject.String())
		}
	}
	for _, c := range byPath {
		if !c.Unchanged() {
			d.Changes = append(d.Changes, *c)
		}
	}
	slices.SortFunc(d.Changes, func(a, b ValueDiffChange) int { return cmp.Compare(a.Path, b.Path) })
}

// ValueDiffText returns a diff as a table. Layout.Now must be set.
func ValueDiffText(d *ValueDiff, layout Layout) string {
	more := ""
	if d.More > 0 {
		more = plural(d.More, "more change was", "more changes were") + " made by attempts that changed many values\n"
	}
	if len(d.Changes) == 0 {
		return "no values differ\n" + more
	}
	rows := [][]string{{"PATH", "OLD", "NEW", "SINCE", "RUN", "BY"}}
	for i := range d.Changes {
		c := &d.Changes[i]
		rows = append(rows, []string{c.Path, cmp.Or(c.Old, "-"), cmp.Or(c.New, "-"), layout.Clock(c.At), id(c.Run), c.By})
	}
	return layout.Table(rows) + more
}

// changesText returns changes of values in one line; empty if changes is nil.
func changesText(changes *store.ValueChanges, layout Layout) string {
	if changes == nil {
		return ""
	}
	const most = 3
	var parts []string
	for i, c := range changes.List {
		if i == most && !layout.whole() {
			break
		}
		parts = append(parts, c.Path+": "+cmp.Or(c.Old, "none")+layout.ascii(" → ", " -> ")+cmp.Or(c.New, "none"))
	}
	if more := len(changes.List) + changes.More - len(parts); more > 0 {
		parts = append(parts, fmt.Sprintf("%d more", more))
	}
	return strings.Join(parts, "; ")
}
