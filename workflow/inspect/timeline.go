package inspect

import (
	"bytes"
	"cmp"
	"encoding/json"
	"slices"
	"strconv"
	"strings"
	"time"

	"addon-operator/store"
	"addon-operator/workflow/graph"
)

// Kinds of entries that are not about attempts. The kind of the other entries is the state of the
// attempt.
const (
	RunBegan = "began"   // a run began
	RunEnded = "ended"   // a run with several attempts ended
	Command  = "command" // a person used a command
	Started  = "started" // a process of the operator began to process tasks
	Stopped  = "stopped" // a process of the operator ended cleanly
)

// An Entry is one event of a timeline.
type Entry struct {
	At time.Time `json:"at"`
	// The kind of the event: [RunBegan], [RunEnded], [Command], [Started], [Stopped], [Omitted], or the
	// state in which an attempt ended.
	What string `json:"what"`
	Run  uint64 `json:"run,omitempty"`
	// Task, Node, Subject, Queue, Began and Try describe an attempt, or the target of a command. For the
	// end of a run, Began is the start of the run.
	Task    store.ID  `json:"task,omitzero"`
	Node    string    `json:"node,omitempty"`
	Subject string    `json:"subject,omitempty"`
	Queue   string    `json:"queue,omitempty"`
	Began   time.Time `json:"began,omitzero"`
	Try     int       `json:"try,omitempty"`
	// The field By names the person who used the command, or who requested the run.
	By string `json:"by,omitempty"`
	// Text is the cause of a run, the error or the result of an attempt, or a command with its
	// reason.
	Text string `json:"text,omitempty"`
	// Changes are the values that the attempt changed. Marks such as "(redacted)" replace secrets.
	Changes *store.ValueChanges `json:"changes,omitempty"`
	// Output is the output of the attempt. Only the entries of [ReadLogs], and of [FollowLogs] and its [Follower], have
	// an Output.
	Output string `json:"output,omitempty"`

	written position
}

// A TimelineRequest selects a part of the timeline.
type TimelineRequest struct {
	// Subject is the name of a module, hook, queue or addons configuration, the ID of a task, or the
	// number of a run. If Subject is empty, all entries are selected.
	Subject string
	// Entries from before Since are left out; zero means any time.
	Since time.Time
	// Limit is the maximum number of entries; below 1 means 1.
	Limit int
}

// A Timeline has entries, oldest first.
type Timeline struct {
	Entries []Entry `json:"entries"`
	// More is set if the request selects older entries that the limit has excluded.
	More bool `json:"more,omitempty"`
	// Subject is the requested subject.
	Subject string `json:"subject,omitempty"`
}

// ReadTimeline returns the newest entries that req selects. ReadTimeline omits records that cannot
// be read.
func ReadTimeline(tx *store.Tx, req TimelineRequest) (Timeline, error) {
	req.Limit = max(req.Limit, 1)
	r := timelineReader{tx: tx, req: req, unreadable: &unreadable{tx: tx}, perRun: map[uint64]int{}}
	if err := r.attempts(); err != nil {
		return Timeline{}, err
	}
	if err := r.commands(); err != nil {
		return Timeline{}, err
	}
	if err := r.runs(); err != nil {
		return Timeline{}, err
	}
	if err := r.starts(); err != nil {
		return Timeline{}, err
	}
	return r.timeline(), nil
}

// A timelineReader collects the entries of a timeline.
type timelineReader struct {
	tx         *store.Tx
	req        TimelineRequest
	unreadable *unreadable
	found      []Entry
	perRun     map[uint64]int // number of attempts that were found, by run
	cut        bool           // set if attempts were omitted because of the limit
	more       bool           // set if the request selects some of the omitted attempts

	// The fields output and wanted are set if the request is for the output of attempts. Each record of an attempt with
	// output contains the text in the field output. The function wanted reports whether the request selects an attempt.
	output []byte
	wanted func(*store.Record) bool
}

// timeline returns the newest collected entries, up to the limit.
func (r *timelineReader) timeline() Timeline {
	slices.SortStableFunc(r.found, func(a, b Entry) int { return cmp.Or(a.At.Compare(b.At), a.written.compare(b.written)) })
	over := len(r.found) - r.req.Limit
	return Timeline{Entries: append([]Entry{}, r.found[max(over, 0):]...), More: over > 0 || r.more, Subject: r.req.Subject}
}

// add adds an entry. add returns false if the entry is too old.
func (r *timelineReader) add(e Entry) bool {
	if e.At.Before(r.req.Since) {
		return false
	}
	r.found = append(r.found, e)
	return true
}

// attempts adds the newest selected attempts. The history is ordered by run, and runs overlap. To find the newest
// records, the method attempts compares the positions in the keys, so that it decodes as few records as possible.
func (r *timelineReader) attempts() error {
	var newest []located
	signs := r.signs()
	for k, v := range r.tx.SkimBackwards(store.At(store.History)) {
		at, err := locate(k)
		if err != nil || r.cut && at.compare(newest[r.req.Limit-1].position) < 0 {
			continue
		}
		if !r.isRun(at.run) && !containsAll(about(v), signs) || !bytes.Contains(v, r.output) {
			continue
		}
		if r.req.Subject != "" || r.wanted != nil {
			if l, err := loadLine(r.tx, k); err != nil || !r.requested(&l.Record) {
				continue
			}
		}
		if newest = append(newest, at); len(newest) > 2*r.req.Limit {
			newest = r.newest(newest)
		}
	}
	newest = r.newest(newest)
	cut := r.cut
	for _, at := range newest {
		l, err := loadLine(r.tx, at.key)
		if err != nil {
			if err := r.unreadable.pass(err); err != nil {
				return err
			}
			continue
		}
		entry := attemptEntry(&l, at.position)
		if r.wanted != nil {
			entry.Output = l.Output
		}
		if !r.add(entry) {
			cut = false // this attempt and the omitted ones are older than the request allows
			continue
		}
		r.perRun[l.Run]++
	}
	r.more = cut
	return nil
}

// requested reports whether the request selects an attempt.
func (r *timelineReader) requested(a *store.Record) bool {
	return (r.req.Subject == "" || r.concerns(a)) && (r.wanted == nil || r.wanted(a))
}

// newest returns the newest of the given records, up to the limit. If more records than the limit are given, the
// returned records are sorted, newest first.
func (r *timelineReader) newest(all []located) []located {
	if len(all) <= r.req.Limit {
		return all
	}
	r.cut = true
	slices.SortFunc(all, func(a, b located) int { return b.compare(a.position) })
	return all[:r.req.Limit]
}

func containsAll(v []byte, texts [][]byte) bool {
	for _, text := range texts {
		if !bytes.Contains(v, text) {
			return false
		}
	}
	return true
}

// signs returns texts that appear in each record of an attempt about the requested subject, queue
// or task. A record that lacks one of these texts need not be decoded.
func (r *timelineReader) signs() (signs [][]byte) {
	name, _, bound := strings.Cut(r.req.Subject, " ")
	parts := strings.SplitN(name, "/", 2)
	for _, part := range parts {
		text, err := json.Marshal(part)
		if err != nil {
			continue
		}
		if len(parts) > 1 || bound || name == "" {
			text = bytes.Trim(text, `"`) // without quotes, because text can be in the middle of a name
		}
		signs = append(signs, text)
	}
	return signs
}

// isRun reports whether run is the requested run.
func (r *timelineReader) isRun(run uint64) bool {
	if subject := r.req.Subject; subject == "" || subject[0] < '0' || subject[0] > '9' {
		return false // do not allocate an error of ParseUint for each record
	}
	requested, err := strconv.ParseUint(r.req.Subject, 10, 64)
	return err == nil && requested == run
}

// concerns reports whether an attempt belongs to the requested subject, run, queue or task.
func (r *timelineReader) concerns(a *store.Record) bool {
	return r.isRun(a.Run) || r.isSubject(a.Subject) || a.Queue == r.req.Subject || a.Task.String() == r.req.Subject
}

// isSubject reports whether s is the requested subject, or belongs to the requested module or hook.
func (r *timelineReader) isSubject(s graph.Subject) bool {
	if s == (graph.Subject{}) {
		return false
	}
	hook := s.OfHook()
	return slices.Contains([]string{s.Module, hook.String(), s.String()}, r.req.Subject)
}

func attemptEntry(l *line, at position) Entry {
	text := cmp.Or(l.Detail, l.Error)
	if l.State == store.Failed || l.State == store.Allowed {
		text = cmp.Or(l.Error, l.Detail)
	}
	if l.Warning != "" {
		text = strings.TrimPrefix(text+"; "+l.Warning, "; ")
	}
	return Entry{
		At: l.Ended, What: string(l.State), Run: l.Run, Task: l.Task, Node: l.Node, Subject: l.Subject.String(), Queue: l.Queue,
		Began: l.Began, Try: l.Try, Text: text, Changes: l.Changes, written: at,
	}
}

// commands adds the entries of the commands that people have used.
func (r *timelineReader) commands() error {
	before := len(r.found)
	for a, err := range store.ActionsBackwards(r.tx) {
		if err != nil {
			return err
		}
		if r.req.Subject != "" && !r.actionConcerns(&a) {
			continue
		}
		if !r.add(commandEntry(&a)) {
			break
		}
	}
	slices.Reverse(r.found[before:]) // oldest first: commands have no position, so sorting keeps their order
	return nil
}

func commandEntry(a *store.Action) Entry {
	return Entry{
		At: a.At, What: Command, Run: a.Run, Task: a.Task, Subject: a.Subject.String(), Queue: a.Queue, By: a.By, Text: commandText(a),
	}
}

func commandText(a *store.Action) string {
	text := strings.TrimSpace(a.Verb + " " + a.What)
	if about := a.Subject.String(); !strings.Contains(text, about) {
		text += " (" + about + ")"
	}
	if a.Reason != "" {
		text += ": " + a.Reason
	}
	return text
}

func (r *timelineReader) actionConcerns(a *store.Action) bool {
	return a.Run != 0 && r.isRun(a.Run) || r.isSubject(a.Subject) || a.Queue == r.req.Subject || a.Task.String() == r.req.Subject
}

// starts adds the starts and stops of the operator. The timeline of a single subject does not have
// them.
func (r *timelineReader) starts() error {
	if r.req.Subject != "" {
		return nil
	}
	for s, err := range store.StartsBackwards(r.tx) {
		if err != nil {
			return err
		}
		if !s.Ended.IsZero() {
			r.add(Entry{At: s.Ended, What: Stopped, Text: "operator, epoch " + id(s.Epoch), written: position{s.Epoch, ^uint64(0)}})
		}
		if !r.add(Entry{At: s.Began, What: Started, Text: startText(&s), written: position{}}) {
			break
		}
	}
	return nil
}

// startText describes the start of a process of the operator. If the previous process crashed, the text
// says so.
func startText(s *store.Start) string {
	text := "operator, epoch " + id(s.Epoch)
	if s.Version != "" {
		text += ", version " + s.Version
	}
	if s.Pod != "" {
		text += ", pod " + s.Pod
	}
	if s.Crashed != 0 {
		text += "; the process of epoch " + id(s.Crashed) + " had crashed"
	}
	return text
}

// mostRunsRead is the maximum number of runs that are searched for one subject, or for changes.
const mostRunsRead = 1000

// runs adds the starts and ends of the newest runs, and of the runs whose attempts were found.
func (r *timelineReader) runs() error {
	most := r.req.Limit
	if r.req.Subject != "" {
		most = mostRunsRead
	}
	if number, err := strconv.ParseUint(r.req.Subject, 10, 64); err == nil {
		r.perRun[number] += 0 // the run with this number is read even if no attempt of it is found
	}
	read := map[uint64]bool{}
	for w, err := range readable(r.unreadable, store.RunsBackwards(r.tx)) {
		if err != nil {
			return err
		}
		if len(read) == most {
			break
		}
		read[w.ID] = true
		r.run(&w)
	}
	for run := range r.perRun {
		if read[run] {
			continue
		}
		w, ok, err := load[store.Run](r.unreadable, store.RunKey(run))
		if err != nil {
			return err
		}
		if ok {
			r.run(&w)
		}
	}
	return nil
}

// run adds the start and the end of w if the request selects the run or one of its attempts. run adds no end if fewer
// than two attempts of the run were found.
func (r *timelineReader) run(w *store.Run) {
	if r.req.Subject != "" && r.perRun[w.ID] == 0 && !r.isRun(w.ID) && !r.isSubject(w.Subject) {
		return
	}
	if r.perRun[w.ID] > 1 && !w.Ended.IsZero() {
		r.add(ended(w))
	}
	r.add(began(w))
}

func began(w *store.Run) Entry {
	return Entry{At: w.Began, What: RunBegan, Run: w.ID, By: w.Cause.By, Text: runText(w), written: afterStart}
}

func ended(w *store.Run) Entry {
	return Entry{At: w.Ended, What: RunEnded, Run: w.ID, Began: w.Began, Text: endText(w), written: last}
}

// afterStart is a position after the start of the operator and the commands of people, and before all
// other records with the same time.
var afterStart = position{number: 1}

// last is a position after all other records with the same time.
var last = position{epoch: ^uint64(0)}

func endText(w *store.Run) string {
	if w.Joined != 0 {
		return "goes on as run " + id(w.Joined)
	}
	return w.Warning
}

func runText(w *store.Run) string {
	s := Summary{Trigger: w.Trigger, Subject: w.Subject.String(), Cause: w.Cause}
	return s.What()
}

// TimelineText returns a timeline as a table. Layout.Now must be set.
func TimelineText(t *Timeline, layout Layout) string {
	switch {
	case len(t.Entries) > 0:
	case t.Subject == "":
		return "the history has no entries for the requested time\n"
	default:
		return layout.Item("", "the history has no entries about "+strconv.Quote(t.Subject)+
			" for the requested time: name a module, a hook as MODULE/HOOK, a global hook, an addons configuration, a queue, the ID of a task, or the number of a run", "")
	}
	rows := [][]string{{"TIME", "RUN", "WHAT", "DESCRIPTION"}}
	for i := 0; i < len(t.Entries); i++ {
		e := &t.Entries[i]
		if alike := t.alike(i); alike > mostAlike && !layout.All && !layout.Wide {
			rows = append(rows, []string{layout.Clock(e.At), id(e.Run), e.What, "attempts " + strconv.Itoa(e.Try) + " to " +
				strconv.Itoa(t.Entries[i+alike-2].Try) + " of the same task failed with the error below; -o wide shows each"})
			i += alike - 1
			e = &t.Entries[i]
		}
		run := "-"
		if e.Run != 0 {
			run = id(e.Run)
		}
		rows = append(rows, []string{layout.Clock(e.At), run, e.What, e.Description(layout)})
	}
	text := layout.Table(rows)
	if t.More {
		text = layout.paint(grey, "older entries are left out; -n N shows more") + "\n" + text
	}
	return text
}

// alike returns the number of consecutive entries, starting at the i-th one, that are attempts of
// the same task and failed with the same error. The number is 1 if the i-th entry is not a failed
// attempt.
func (t *Timeline) alike(i int) int {
	first, n := &t.Entries[i], 1
	if first.What != string(store.Failed) {
		return n
	}
	for _, e := range t.Entries[i+1:] {
		if e.What != first.What || e.Task != first.Task || e.Text != first.Text || e.Changes != nil {
			break
		}
		n++
	}
	return n
}

// Description returns the text of an entry, without its time, its run and its kind.
func (e *Entry) Description(layout Layout) string {
	text := e.Text
	switch e.What {
	case RunBegan, Started, Stopped, Omitted:
	case RunEnded:
		text = strings.TrimSuffix("after "+Span(e.At.Sub(e.Began))+"; "+text, "; ")
	case Command:
		text = cmp.Or(e.By, "somebody") + ": " + text
	default:
		head := strings.TrimSpace(e.Node + " " + e.Subject)
		var facts []string
		if e.Try > 1 {
			facts = append(facts, "attempt "+strconv.Itoa(e.Try))
		}
		if took := e.At.Sub(e.Began); !e.Began.IsZero() && took >= 100*time.Millisecond {
			facts = append(facts, Span(took))
		}
		if layout.Wide {
			facts = append(facts, "task "+e.Task.String(), "queue "+e.Queue)
		}
		if len(facts) > 0 {
			head += " (" + strings.Join(facts, ", ") + ")"
		}
		text = strings.TrimSuffix(head+": "+layout.reason(text), ": ")
		if changes := changesText(e.Changes, layout); changes != "" {
			text += " (" + changes + ")"
		}
	}
	return text
}

// Omitted is the kind of an entry that replaces entries which a follower did not read in time.
const Omitted = "omitted"

// FollowedRow returns an entry as one row of a followed timeline. Layout.Now must be set.
func FollowedRow(e *Entry, layout Layout) string {
	run := "-"
	if e.Run != 0 {
		run = id(e.Run)
	}
	lead := strings.Join([]string{fill(layout.Clock(e.At), len("15:04:05Z")), left(run, 6), fill(e.What, len(store.Quarantined))}, "  ")
	return layout.Item(lead+"  ", flat(e.Description(layout)), "")
}
