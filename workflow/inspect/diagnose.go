package inspect

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"time"

	"addon-operator/store"
	"addon-operator/workflow/graph"
)

// A Diagnosis has all findings about an operator.
type Diagnosis struct {
	Schema int       `json:"schema"`
	At     time.Time `json:"at"` // time of the snapshot
	Live   bool      `json:"live"`
	// Findings is sorted by reach: findings about the whole operator are first.
	Findings []Finding `json:"findings"`
}

// Diagnose searches for known patterns in the store and in the data of the running operator. The
// findings include each problem of a [Status].
func (r *Reader) Diagnose(tx *store.Tx, operator StatusOperator) (*Diagnosis, error) {
	found, err := r.newEvidence(tx)
	if err != nil {
		return nil, err
	}
	others, err := r.others(found.scan)
	if err != nil {
		return nil, err
	}
	found.problems = withoutReviews(append(found.problems, others...))
	p := &diagnostician{evidence: found, operator: operator}
	out := &Diagnosis{Schema: Schema, At: found.scan.now, Live: r.Live, Findings: []Finding{}}
	for _, layout := range []func() ([]Finding, error){
		p.standby, p.otherCluster, p.ofReach(0, 1), p.disk, p.clock, p.crashes, p.lost, p.ofReach(2, 3), p.failures, p.loops, p.storms, p.ofReach(4, 4),
	} {
		findings, err := layout()
		if err != nil {
			return nil, err
		}
		out.Findings = append(out.Findings, findings...)
	}
	return out, nil
}

// A diagnostician searches for patterns. A method that searches for a pattern returns no finding if the pattern does
// not match.
type diagnostician struct {
	*evidence

	operator StatusOperator
	searched int // number of findings for which the changes before the first failure were searched
}

// kubectl returns a command of kubectl, with the namespace of the operator if this namespace is known.
func (d *diagnostician) kubectl(args string) string {
	if d.operator.Namespace != "" {
		args = "-n " + d.operator.Namespace + " " + args
	}
	return "kubectl " + args
}

// standby finds out whether this operator waits for the Lease of its namespace, because another operator holds the
// Lease or because of an error.
func (d *diagnostician) standby() ([]Finding, error) {
	waits := d.operator.Standby
	if waits == "" {
		return nil, nil
	}
	f := Finding{
		Pattern: SecondOperator, Text: "this operator does nothing until it holds the Lease of the namespace: " + waits,
		Fix: "nothing to do if this is a second replica, or if the other operator is about to end. Otherwise two workloads are installed: " +
			"scale one of them to 0 replicas. See who holds the Lease, and when it was renewed: ",
		Evidence: []CauseStep{{At: d.operator.StandbySince, Text: "this operator began to wait"}},
	}
	if d.operator.StandbyError != "" {
		f.Pattern = UnavailableLease
		f.Fix = "correct what the error names: the operator cannot read or acquire the Lease, and repeats its request by itself. See whether the Lease can be read: "
	}
	f.Fix += d.kubectl("get lease addon-operator-leader-election -o yaml")
	return []Finding{f}, nil
}

// unavailableLease finds the same as [diagnostician.standby], but only if this operator waits because of an error. An
// operator that waits for another operator needs no attention.
func (d *diagnostician) unavailableLease() ([]Finding, error) {
	if d.operator.StandbyError == "" {
		return nil, nil
	}
	return d.standby()
}

// since returns the time of the oldest evidence that is not in the future; zero if there is no evidence with such a
// time.
func (f *Finding) since(now time.Time) (at time.Time) {
	for _, c := range f.Evidence {
		if !c.At.IsZero() && !c.At.After(now) && (at.IsZero() || c.At.Before(at)) {
			at = c.At
		}
	}
	return at
}

// otherCluster finds a store of another cluster that was on the volume.
func (d *diagnostician) otherCluster() (out []Finding, _ error) {
	if aside := d.operator.Aside; len(aside) > 0 {
		f := Finding{
			Pattern: OtherCluster, Text: "the volume had the store of another cluster; the operator renamed it and started with an empty one",
			Fix: "if the wrong volume is mounted, stop the operator and mount the one of this cluster: it has the pending work, the pauses and the values of hooks. " +
				"If the volume is right, move the renamed file to another directory: this finding ends, and the new store stays",
		}
		for _, path := range aside {
			f.Evidence = append(f.Evidence, CauseStep{At: d.operator.AsideSince, Text: "renamed to " + path})
		}
		out = append(out, f)
	}
	return out, nil
}

// littleRoom is the minimum free space in bytes. A disk with less is nearly full, even if a copy of a
// small store would fit on it.
const littleRoom = 64 << 20

// disk finds a disk with less free space than littleRoom, or than the size of the store: a compaction can need that
// much. disk finds nothing if the disk is full, because that is another problem.
func (d *diagnostician) disk() ([]Finding, error) {
	o := &d.operator
	needed := max(uint64(max(o.StoreBytes, 0)), littleRoom)
	full := d.problem(func(p *Problem) bool { return p.Kind == KindFull })
	if o.FreeBytes == nil || *o.FreeBytes >= needed || full != nil {
		return nil, nil
	}
	return []Finding{{
		Pattern: LittleRoom, Text: "the disk of the store is nearly full: " + Size(*o.FreeBytes) + " are free",
		Evidence: []CauseStep{{Text: o.Store + " has " + Size(uint64(max(o.StoreBytes, 0))) + "; this finding ends when " + Size(needed) + " are free"}},
		Fix:      "enlarge the volume, or delete other files on it",
		Advice:   []Advice{{Args: []string{"store", "check"}, Why: "whether the file of the store is sound"}},
	}}, nil
}

// mostSkew is how far the times in the store may be in the future, or out of order, before this is a finding.
const mostSkew = 5 * time.Second

// clock finds the same as [diagnostician.future], and also a start whose time is before the time of the previous start.
func (d *diagnostician) clock() ([]Finding, error) {
	evidence, err := d.laterRecords()
	if err != nil {
		return nil, err
	}
	back, err := d.olderStart()
	return append(d.skew(), wrongClock(append(evidence, back...))...), err
}

// future finds a difference between the clocks of the operator and of the API server, and records with times in the
// future. If the clocks differ, one of them is wrong now. If records have times in the future, the clock of the
// operator is wrong, or it was wrong when the records were written.
func (d *diagnostician) future() ([]Finding, error) {
	evidence, err := d.laterRecords()
	return append(d.skew(), wrongClock(evidence)...), err
}

// skew finds a difference between the clocks of the operator and of the API server.
func (d *diagnostician) skew() []Finding {
	o := &d.operator
	if o.Skew == 0 {
		return nil
	}
	direction := " ahead of"
	if o.Skew < 0 {
		direction = " behind"
	}
	return []Finding{{
		Pattern: WrongClock, Text: "the clock of the API server is " + Span(o.Skew.Abs()) + direction + " the clock of the operator",
		Evidence: []CauseStep{{At: o.SkewSince, Text: "the operator noticed it in the header Date of a response"}},
		Fix: "synchronize the clock of the node that is wrong: run date, chronyc tracking or timedatectl on the nodes of the operator and of the API server. " +
			"Until then, schedules can tick at the wrong time, and valid certificates and tokens can be rejected",
	}}
}

// wrongClock returns a finding with the evidence, or nothing if there is no evidence.
func wrongClock(evidence []CauseStep) []Finding {
	if len(evidence) == 0 {
		return nil
	}
	return []Finding{{
		Pattern: WrongClock, Text: "the clock of a node was or is wrong: the times of records in the store are in the future or not in order", Evidence: evidence,
		Fix: "synchronize the clocks of the nodes (chronyc tracking, timedatectl): schedules, retries and certificates depend on them. " +
			"If they are right now, wait: this finding ends by itself",
	}}
}

// laterRecords returns the newest run, the newest start and the latest schedule tick as evidence, each
// only if its time is more than mostSkew in the future.
func (d *diagnostician) laterRecords() (evidence []CauseStep, _ error) {
	later := func(at time.Time, what string, run uint64) {
		if at.Sub(d.scan.now) > mostSkew {
			evidence = append(evidence, CauseStep{At: at, Run: run, Text: what + ", " + Span(at.Sub(d.scan.now)) + " in the future"})
		}
	}
	for w, err := range readable(d.scan.unreadable, store.RunsBackwards(d.scan.tx)) {
		if err != nil {
			return nil, err
		}
		later(w.Began, "run "+id(w.ID)+" began", w.ID)
		break
	}
	for s, err := range store.StartsBackwards(d.scan.tx) {
		if err != nil {
			return nil, err
		}
		later(s.Began, "start of the "+startText(&s), 0)
		break
	}
	subject, tick, err := d.latestTick()
	later(tick, "last tick of "+subject.String(), 0)
	return evidence, err
}

// latestTick returns the schedule binding with the latest tick, and the time of the tick. Both results are zero if the
// store has no tick.
func (d *diagnostician) latestTick() (of graph.Subject, latest time.Time, _ error) {
	for k := range d.scan.tx.Range(store.At(store.Ticks)) {
		tick, _, err := load[time.Time](d.scan.unreadable, k)
		if err != nil {
			return of, latest, err
		}
		parts, err := k.Parts()
		if err != nil {
			return of, latest, err
		}
		if tick.After(latest) {
			of, latest = graph.Subject{Module: parts.Str(), Hook: parts.Str(), Binding: parts.Str()}, tick
		}
	}
	return of, latest, nil
}

// olderStart returns the newest start whose time is before the time of the previous start, by more than mostSkew.
// olderStart searches only the starts within the period lostShown before now, and the newest start before this period.
func (d *diagnostician) olderStart() ([]CauseStep, error) {
	var newer *store.Start
	for s, err := range store.StartsBackwards(d.scan.tx) {
		if err != nil {
			return nil, err
		}
		if newer != nil && s.Began.Sub(newer.Began) > mostSkew {
			return []CauseStep{{
				At: newer.Began, Text: "start of the " + startText(newer) + ", " + Span(s.Began.Sub(newer.Began)) + " before the start of epoch " + id(s.Epoch),
			}}, nil
		}
		if newer = &s; d.scan.now.Sub(s.Began) > lostShown {
			break
		}
	}
	return nil, nil
}

// A crash loop has at least leastCrashes crashes within crashSpan. The evidence shows the last of these crashes, at
// most crashesShown.
const (
	leastCrashes = 2
	crashSpan    = time.Hour
	crashesShown = 2
)

// crashes finds a crash loop. If no operator runs, crashes also finds a crash of the last operator, if this crash
// interrupted a task. The evidence begins with the interrupted tasks.
func (d *diagnostician) crashes() ([]Finding, error) {
	var evidence []CauseStep
	var oldest, last time.Time
	n, dead, pod := 0, false, ""
	newest := true
	crashed := map[uint64]bool{} // by epoch
	for s, err := range store.StartsBackwards(d.scan.tx) {
		if err != nil {
			return nil, err
		}
		if newest && !d.reader.Live && s.Ended.IsZero() {
			dead, crashed[s.Epoch] = true, true
		}
		if newest && s.Pod != "" {
			pod = " " + s.Pod
		}
		if newest = false; d.scan.now.Sub(s.Began) > crashSpan {
			break
		}
		if s.Crashed == 0 {
			continue
		}
		crashed[s.Crashed] = true
		oldest, last = s.Began, cmp.Or(last, s.Began)
		if n++; n <= crashesShown {
			evidence = append(evidence, CauseStep{At: s.Began, Text: "start of the " + startText(&s)})
		}
	}
	interrupted := d.interrupted(crashed)
	if dead = dead && len(interrupted) > 0; !dead && (n < leastCrashes || d.quarantineEnds(n, last)) {
		return nil, nil
	}
	f := Finding{
		Pattern: CrashLoop, Text: "the operator crashed " + plural(n, "time", "times") + " in the last " + Span(crashSpan),
		Fix: d.resumed() + "read why in the pod: " + d.kubectl("describe pod"+pod) + ` ("OOMKilled": raise the memory limit), ` + d.kubectl("logs"+pod+" --previous") + `. A task that is interrupted each time is put in quarantine: the task does not run any more, and the other modules continue`, Since: oldest,
		Advice: []Advice{{Args: []string{"timeline", "--since", "1h"}, Why: "what ran before each crash"}},
	}
	if dead {
		f.Pattern, f.Text = Crash, "the last operator of this store crashed or was killed, unless this file is a snapshot"
	}
	if len(interrupted) > 0 {
		f.Text += "; " + strings.TrimSuffix(interrupted[0].Text, wasInterrupted) + " was running"
	}
	f.Evidence = append(interrupted, evidence...)
	return []Finding{f}, nil
}

// resumed returns the sentences at the beginning of a fix that name the modules whose deletion goes on when an operator
// starts. The result is empty if an operator runs, or if no module is being deleted.
func (d *diagnostician) resumed() (text string) {
	if d.reader.Live {
		return ""
	}
	for _, name := range slices.Sorted(maps.Keys(d.states)) {
		if is := d.states[name]; is.State == ModuleDeleting {
			text += resumedDeletion(name, is.Reason) + ". Then "
		}
	}
	return text
}

// quarantineEnds reports whether an item in quarantine caused the last n crashes, so that the crashes and the
// quarantine are one problem. The parameter last is the newest start after a crash. quarantineEnds requires that the
// quarantine began at this time or later.
func (d *diagnostician) quarantineEnds(n int, last time.Time) bool {
	return d.problem(func(p *Problem) bool { return p.Kind == KindQuarantined && p.Try >= n && !last.After(p.At) }) != nil
}

const wasInterrupted = " was interrupted by a crash"

// interrupted returns the tasks that a crash interrupted, as evidence. The argument crashed has the epochs of the
// processes that crashed. A task that a clean stop of the operator interrupted is not returned.
func (d *diagnostician) interrupted(crashed map[uint64]bool) (evidence []CauseStep) {
	for _, name := range d.scan.names {
		q := d.scan.queues[name]
		t := cmp.Or(q.busy, q.head)
		if d.scan.state(t) != Interrupted || !crashed[t.Claim.Epoch] {
			continue
		}
		ref := d.scan.ref(t)
		evidence = append(evidence, CauseStep{At: t.Claim.Since, Run: t.Run, Task: t.ID, Text: ref.name() + wasInterrupted})
	}
	return evidence
}

// lost finds a span for which the store has no data.
func (d *diagnostician) lost() ([]Finding, error) {
	lost, err := lostSpan(d.scan.unreadable, d.scan.now)
	if err != nil || lost == nil {
		return nil, err
	}
	return []Finding{{
		Pattern: LostWork, Text: "the pending work of the store was dropped, because the store has no data for a span of " + Span(lost.To.Sub(lost.From)),
		Evidence: []CauseStep{{At: lost.At, Text: lost.String()}},
		Fix:      "nothing to do if a snapshot was restored or another operator worked in this time. Otherwise find out why the operator had an old volume",
		Advice:   []Advice{{Args: []string{"timeline"}, Why: "what happened since then"}},
	}}, nil
}

// ofReach returns a function that finds the problems whose reach is from low to high. The function does not find
// failing steps, because [diagnostician.failures] finds them.
func (d *diagnostician) ofReach(low, high int) func() ([]Finding, error) {
	return func() (out []Finding, _ error) {
		for i := range d.problems {
			p := &d.problems[i]
			if p.Kind != KindFailing && low <= p.reach() && p.reach() <= high {
				out = append(out, d.finding(p))
			}
		}
		return out, nil
	}
}

// finding returns a finding about one problem, p. finding does not search for the causes of p.
func (d *diagnostician) finding(p *Problem) Finding {
	f := Finding{Pattern: Pattern(p.Kind), Text: p.headline()}
	at := CauseStep{At: p.At, Run: p.Run, Task: p.Task}
	switch {
	case f.Text != p.Error:
		at.Text = flat(p.Error)
	case p.Object != "" && !strings.Contains(p.Error, p.Object):
		at.Text = p.Object
	}
	if p.More > 0 {
		at.Text = strings.TrimPrefix(at.Text+"; "+plural(p.More, "other has", "others have")+" the same problem", "; ")
	}
	if p.Held > 0 {
		at.Text = strings.TrimPrefix(at.Text+"; "+plural(p.Held, "task is", "tasks are")+" held because of this", "; ")
	}
	if at.Text != "" || !at.At.IsZero() {
		at.Text = cmp.Or(at.Text, "since then")
		f.Evidence = []CauseStep{at}
	}
	f.Fix = p.fix()
	if next := p.next(d.reader.Live); len(next) > 0 && !p.stored() {
		f.Advice = append(f.Advice, Advice{Args: next, Why: "the problem in full"})
	}
	if d.reader.Live {
		f.Advice = append(f.Advice, p.commands()...)
	}
	f.Advice = append(f.Advice, p.command()...)
	return f
}

// command returns the command in p.Command as advice; nil if there is none.
func (p *Problem) command() []Advice {
	if len(p.Command) == 0 {
		return nil
	}
	a := Advice{Args: p.Command, Instead: p.Fix != ""}
	if p.Effect != "" {
		a.Why = "this " + p.Effect
	}
	return []Advice{a}
}
