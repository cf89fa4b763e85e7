package crash_test

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
)

// A hookRun is one line in the record of a storm test: the start, the failure or the successful end of a hook run. word
// is "begin", "fails" or "end".
type hookRun struct {
	word, task, attempt, previous, hook string
	context                             string // name of the file with the binding context
}

// A stormRecord has the hook runs that a storm test has recorded so far, and the deliveries in them.
type stormRecord struct {
	path string
	read int64
	runs []hookRun
	// delivered has the changes that completed runs have received as events, by hook and by the key of the change. The
	// value is the position of the first delivery in the order of all first deliveries to the hook.
	delivered map[string]map[string]int
	// newest has the highest number of a change that an event delivered, and synchronized has the highest number of a
	// change that a Synchronization delivered, both by hook and name of the object.
	newest, synchronized map[string]map[string]int
	// ends counts the completed runs, by task and hook.
	ends map[[2]string]int
	// state has the number of the last delivered change of each object, by hook and name of the object. It has no
	// objects whose deletion was delivered.
	state map[string]map[string]int
	// last has the name of the file with the binding context of the last completed run, by hook.
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
	defer f.Close() // an error does not matter, because the file is only read
	content, err := io.ReadAll(io.NewSectionReader(f, r.read, 1<<40))
	if err != nil {
		return err
	}
	for line := range strings.Lines(string(content)) {
		if !strings.HasSuffix(line, "\n") {
			break // a hook is writing this line
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

// A filtered is a result of the jqFilter. All bindings of a storm test have the same jqFilter.
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

// got reports whether the change c of the load l was delivered to the hook of the set as an event. In a coalesced set,
// the event of a later change of the object is enough, unless c is a deletion.
func (r *stormRecord) got(l *load, c change) bool {
	_, ok := r.delivered[l.set.hook][c.key()]
	return ok || l.set.coalesced && c.Event != "Deleted" && r.newest[l.set.hook][c.Name] >= c.Seq
}

// shown reports whether a Synchronization delivered the object of the change c in the state after c or in a later
// state. l is the load of c.
func (r *stormRecord) shown(l *load, c change) bool {
	return c.Event != "Deleted" && r.synchronized[l.set.hook][c.Name] >= c.Seq
}

// missing returns the changes of the load l that were made after the first converge and were not delivered to the hook
// of its set.
func (r *stormRecord) missing(l *load) (missing []string) {
	for _, c := range l.changes {
		if !l.early(c) && !r.got(l, c) {
			missing = append(missing, c.key())
		}
	}
	return missing
}

// differences compares the existing objects of the load l with the objects that were delivered to the hook of its set,
// and returns the differences.
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

// disorder returns the changes of the load l that were delivered before an earlier change of the same object.
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

// invented returns the events that match no change of the load l, but were delivered to the hook of its set. In a
// coalesced set, an event Added may have the number of a later change, because a pending event keeps its type when it
// is coalesced with a later event of the object.
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

// silentlyRepeated returns runs that were repeated without notice: an earlier run of the hook for the same task began
// and did not end, but the next run did not receive the previous result "interrupted". It leaves out the hook
// hooks/all.sh of each module, and all hooks of the module that the test disables.
func (r *stormRecord) silentlyRepeated() (wrong []string) {
	begun := map[[2]string]bool{}
	for _, run := range r.runs {
		if strings.HasSuffix(run.hook, allHooks) || strings.HasPrefix(run.hook, toggled+"/") {
			continue // disabling the module cancels its hooks, which later run again as a first attempt
		}
		key := [2]string{run.task, run.hook}
		if run.word == "begin" && begun[key] && run.previous != "interrupted" {
			wrong = append(wrong, fmt.Sprintf("%s for task %s, attempt %s, received %q as the previous result", run.hook, run.task, run.attempt, run.previous))
		}
		begun[key] = run.word == "begin"
	}
	return wrong
}
