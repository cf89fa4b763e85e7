package crash_test

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
)

// A hookRun is one line in the record of a storm: the start or the end of a run of a hook.
type hookRun struct {
	word, task, attempt, previous, hook string
	context                             string // the file with the binding context
}

// A stormRecord is the record of the hooks of a storm.
type stormRecord struct {
	path string
	read int64
	runs []hookRun
	// delivered has the changes that completed runs have received as events: by hook and by the key
	// of the change. The value is the position of the first delivery.
	delivered map[string]map[string]int
	// newest and synchronized have the number of the last change of an object that was delivered,
	// by hook and name: newest in events, and synchronized in Synchronizations.
	newest, synchronized map[string]map[string]int
	// ends counts the completed runs, by task and hook.
	ends map[[2]string]int
	// state has the objects that exist according to the binding contexts of a hook, by hook and
	// name.
	state map[string]map[string]int
	// last has the file with the binding context of the last completed run of each hook.
	last map[string]string
}

func newStormRecord(path string) *stormRecord {
	return &stormRecord{
		path: path, newest: map[string]map[string]int{}, synchronized: map[string]map[string]int{}, delivered: map[string]map[string]int{}, ends: map[[2]string]int{}, state: map[string]map[string]int{}, last: map[string]string{},
	}
}

// update reads the new lines of the record.
func (r *stormRecord) update() error {
	f, err := os.Open(r.path)
	if os.IsNotExist(err) {
		return nil
	}
	if err != nil {
		return err
	}
	defer f.Close() // errors do not matter, because the file is only read
	content, err := io.ReadAll(io.NewSectionReader(f, r.read, 1<<40))
	if err != nil {
		return err
	}
	for line := range strings.Lines(string(content)) {
		if !strings.HasSuffix(line, "\n") {
			break // the line is being written
		}
		r.read += int64(len(line))
		parts := strings.Split(strings.TrimSuffix(line, "\n"), "\t")
		if len(parts) != 6 {
			return fmt.Errorf("%s: line %q does not have six parts", r.path, line)
		}
		run := hookRun{parts[0], parts[1], parts[2], parts[3], parts[4], parts[5]}
		r.runs = append(r.runs, run)
		if run.word != "end" {
			continue
		}
		if err := r.end(run); err != nil {
			return fmt.Errorf("binding context of run %v: %w", run, err)
		}
	}
	return nil
}

// A filtered is the result of the jqFilter of all bindings of a storm.
type filtered struct {
	Name string `json:"name"`
	Seq  int    `json:"seq,string"`
}

// end adds the deliveries of a completed run.
func (r *stormRecord) end(run hookRun) error {
	r.ends[[2]string{run.task, run.hook}]++
	r.last[run.hook] = run.context
	text, err := os.ReadFile(filepath.Join(r.path+".d", run.context))
	if err != nil {
		return err
	}
	var elements []element
	if err := json.Unmarshal(text, &elements); err != nil {
		return err
	}
	if r.delivered[run.hook] == nil {
		r.delivered[run.hook], r.state[run.hook] = map[string]int{}, map[string]int{}
		r.newest[run.hook], r.synchronized[run.hook] = map[string]int{}, map[string]int{}
	}
	for _, e := range elements {
		if e.Type == "Synchronization" {
			clear(r.state[run.hook])
			for _, o := range e.Objects {
				var f filtered
				if err := json.Unmarshal(o.FilterResult, &f); err != nil {
					return err
				}
				r.state[run.hook][f.Name] = f.Seq
				r.synchronized[run.hook][f.Name] = max(r.synchronized[run.hook][f.Name], f.Seq)
			}
		}
		if e.Type != "Event" {
			continue
		}
		var f filtered
		if err := json.Unmarshal(e.FilterResult, &f); err != nil {
			return fmt.Errorf("filter result %q: %w", e.FilterResult, err)
		}
		key := change{Event: e.WatchEvent, Name: f.Name, Seq: f.Seq}.key()
		r.newest[run.hook][f.Name] = max(r.newest[run.hook][f.Name], f.Seq)
		delivered := r.delivered[run.hook]
		if _, known := delivered[key]; !known {
			delivered[key] = len(delivered)
		}
		if e.WatchEvent == "Deleted" {
			delete(r.state[run.hook], f.Name)
		} else {
			r.state[run.hook][f.Name] = f.Seq
		}
	}
	return nil
}

// got reports whether c, a change of l, was delivered to the hook of its set. In a coalesced set,
// the delivery of a later state of the object is enough, unless the change is a deletion.
func (r *stormRecord) got(l *load, c change) bool {
	_, ok := r.delivered[l.set.hook][c.key()]
	return ok || l.set.coalesced && c.Event != "Deleted" && r.newest[l.set.hook][c.Name] >= c.Seq
}

// shown reports whether a Synchronization delivered c, a change of l, or a later state of the
// object.
func (r *stormRecord) shown(l *load, c change) bool {
	return c.Event != "Deleted" && r.synchronized[l.set.hook][c.Name] >= c.Seq
}

// missing returns the changes of l since the first converge that were not delivered to the hook of
// its set.
func (r *stormRecord) missing(l *load) (missing []string) {
	for _, c := range l.changes {
		if !l.early(c) && !r.got(l, c) {
			missing = append(missing, c.key())
		}
	}
	return missing
}

// differences returns the differences between the objects that the hook of l's set knows and those
// that exist.
func (r *stormRecord) differences(l *load) (wrong []string) {
	known, silent := r.state[l.set.hook], l.silentSince()
	exist := map[string]bool{}
	for _, name := range l.alive {
		exist[name] = true
		if known[name] != l.seq[name] && !silent[name] {
			wrong = append(wrong, fmt.Sprintf("%s: the last delivered change is %d, but the last change is %d", name, known[name], l.seq[name]))
		}
	}
	for name := range known {
		if !exist[name] {
			wrong = append(wrong, name+": its deletion was not delivered")
		}
	}
	return wrong
}

// disorder returns the changes of l that were delivered before an earlier change of the same
// object.
func (r *stormRecord) disorder(l *load) (wrong []string) {
	last := map[string]change{}
	delivered := r.delivered[l.set.hook]
	for _, c := range l.changes {
		at, ok := delivered[c.key()]
		if !ok {
			continue
		}
		if before, known := last[c.Name]; known && delivered[before.key()] > at {
			wrong = append(wrong, fmt.Sprintf("%q was delivered before %q", c.key(), before.key()))
		}
		last[c.Name] = c
	}
	return wrong
}

// invented returns the deliveries to the hook of l's set that match no change. In a coalesced set,
// the pending event of an object keeps its type when it gets a later state of the object.
func (r *stormRecord) invented(l *load) (wrong []string) {
	made := map[string]bool{}
	for _, c := range l.changes {
		made[c.key()] = true
		if l.set.coalesced && c.Event == "Modified" {
			c.Event = "Added"
			made[c.key()] = true
		}
	}
	for key := range r.delivered[l.set.hook] {
		if !made[key] {
			wrong = append(wrong, key)
		}
	}
	return wrong
}

// silentlyRepeated returns the runs of hooks with object bindings that were not notified of an
// interruption: an earlier run for the same task had begun and not ended.
func (r *stormRecord) silentlyRepeated() (wrong []string) {
	begun := map[[2]string]bool{}
	for _, run := range r.runs {
		if strings.HasSuffix(run.hook, allHooks) || strings.HasPrefix(run.hook, toggled+"/") {
			continue // when this module is disabled, its hooks are canceled, and its run may start over
		}
		key := [2]string{run.task, run.hook}
		if run.word == "begin" && begun[key] && run.previous != "interrupted" {
			wrong = append(wrong, fmt.Sprintf("%s for task %s, attempt %s, received %q as the previous result", run.hook, run.task, run.attempt, run.previous))
		}
		begun[key] = run.word == "begin"
	}
	return wrong
}
