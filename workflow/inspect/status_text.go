package inspect

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// statusHeight is the maximum number of lines of a status, if the layout has no height. A status of
// this height and the prompt fit on a terminal of 24 lines.
const statusHeight = 23

// mostRows is the maximum number of rows of each section, and of problems, if the layout cuts texts.
const mostRows = 12

// StatusText returns s as lines for a terminal. The first lines say whether something needs attention. The
// problems with the next commands follow, and then a section each for modules, queues, running tasks and
// the store. If the layout cuts texts, modules that are on or off are only counted. Rows and problems are
// then omitted until the text has at most layout.Height lines, or 23 lines if that is 0. At least one
// problem stays.
func StatusText(s *Status, layout Layout) string {
	if layout.Now.IsZero() {
		layout.Now = s.At
	}
	height := statusHeight
	if layout.Height > 0 {
		height = layout.Height
	}
	rows, problems := mostRows, mostRows
	for {
		p := &statusPage{page: page{layout: layout}, status: s, rows: rows, most: problems}
		p.write()
		if heightOf(p.lines, layout.width()) <= height || problems == 1 || layout.whole() {
			return strings.Join(p.lines, "\n") + "\n"
		}
		if rows > 0 { // problems are omitted last, because they say what to do
			rows--
		} else {
			problems--
		}
	}
}

// A statusPage is the unfinished text of a status.
type statusPage struct {
	page
	status *Status
	rows   int // maximum number of rows of each section
	most   int // maximum number of problems
}

func (p *statusPage) write() {
	p.verdict()
	p.problems()
	p.resumed()
	p.line("")
	p.modules()
	p.queues()
	p.running()
	p.store()
	if lost := p.status.Lost; lost != nil {
		p.section("lost", lost.String())
	}
	if r := p.status.Requests; r != nil {
		p.section("API", r.text())
	}
	if lease := p.status.Operator.Lease; lease != "" {
		p.section("lease", lease)
	}
}

// shown returns the number of rows that are shown of a section with n rows.
func (p *statusPage) shown(n int) int {
	if p.layout.whole() {
		return n
	}
	return min(n, p.rows)
}

// shownProblems returns the number of problems that are shown if there are n.
func (p *statusPage) shownProblems(n int) int {
	if p.layout.whole() {
		return n
	}
	return min(n, p.most)
}

// omitted writes the number of omitted rows, if there are any, with the command that shows them.
func (p *statusPage) omitted(n, shown int, one, many string) {
	if left := n - shown; left > 0 {
		p.line("  " + p.layout.dots() + " and " + plural(left, one, many) + "; see them with " + strings.TrimSpace(p.layout.Program+" status -o wide"+p.layout.More))
	}
}

// verdict writes whether something needs attention, and below it a line about the process that made the
// snapshot.
func (p *statusPage) verdict() {
	s, l := p.status, p.layout
	text, state := s.Verdict()
	icon, colour := badges[state].icon, badges[state].colour
	if l.ASCII {
		icon = badges[state].ascii
	}
	if state == Waiting {
		colour = yellow
	}
	for i, part := range wrap(text, l.width()-2) {
		if i > 0 {
			icon = " "
		}
		p.line(l.paint(bold+colour, icon+" "+part))
	}
	for _, part := range wrap(strings.Join(p.process(), ", "), l.width()) {
		p.line(l.paint(grey, part))
	}
	if s.Operator.Standby != "" && len(s.Findings) == 0 {
		p.line("  next:  " + strings.TrimSpace(l.Program+" diagnose"+l.More))
	}
}

// Verdict returns a sentence that says whether something needs attention. The result state is [Failing] if something
// needs attention, [Waiting] if the operator does not process tasks, [Running] during the converge of the start, and
// otherwise [Done].
func (s *Status) Verdict() (text string, state State) {
	switch n := len(s.Problems) + len(s.Findings); {
	case n > 0:
		return plural(n, "problem needs", "problems need") + " attention", Failing
	case !s.Live:
		return "no operator runs; nothing in its store needs attention", Waiting
	case s.Operator.Standby != "":
		return "standby: " + s.Operator.Standby, Waiting
	case s.Starting:
		return "nothing needs attention; the converge of the start is in progress", Running
	default:
		return "nothing needs attention", Done
	}
}

// process describes the process of the operator and the last converge.
func (p *statusPage) process() []string {
	s, l := p.status, p.layout
	parts := []string{"store of a stopped operator"}
	if !s.Stopped.IsZero() {
		parts = append(parts, "stopped cleanly at "+l.Clock(s.Stopped)+l.zone(s.Stopped))
	}
	if s.Live {
		parts[0] = strings.TrimSpace("addon-operator " + s.Operator.Version)
		if !s.Operator.Started.IsZero() {
			parts = append(parts, "up "+age(l.Now.Sub(s.Operator.Started)))
		}
		if s.Attention && s.Operator.Standby != "" && s.Operator.StandbyError == "" { // a finding shows the error
			parts = append(parts, "standby: "+s.Operator.Standby)
		}
		if !s.Operator.StandbySince.IsZero() {
			parts = append(parts, "standby since "+l.Clock(s.Operator.StandbySince))
		}
	}
	parts = append(parts, "epoch "+id(s.Epoch))
	if s.Converged.IsZero() {
		return append(parts, "never converged")
	}
	text := "converged " + l.Clock(s.Converged) + l.zone(s.Converged) + " (run " + id(s.ConvergedRun) + ")"
	if s.Starting || s.Attention {
		text = "last " + text
	}
	if s.Starting {
		text += ", before this start"
	}
	parts = append(parts, text)
	switch later := s.failingAfterConverge(); {
	case len(later) == 1:
		parts = append(parts, "run "+id(later[0])+" fails")
	case len(later) > 1:
		parts = append(parts, strconv.Itoa(len(later))+" later runs fail")
	}
	return parts
}

// failingAfterConverge returns the runs that began after the last completed converge and have a failing step.
func (s *Status) failingAfterConverge() (runs []uint64) {
	for i := range s.Problems {
		if p := &s.Problems[i]; p.Kind == KindFailing && p.Run > s.ConvergedRun && !slices.Contains(runs, p.Run) {
			runs = append(runs, p.Run)
		}
	}
	return runs
}

// problems writes the findings and the groups of problems, each with the next command.
func (p *statusPage) problems() {
	if len(p.status.Problems)+len(p.status.Findings) == 0 {
		return
	}
	p.line("")
	p.findings(false)
	groups, shown := sameCause(p.status.Problems), 0
	for _, group := range groups[:p.shownProblems(len(groups))] {
		shown += len(group)
		if group[0].stored() {
			p.stored(group[0])
			continue
		}
		p.title(group, len(groups))
		p.explain(group)
	}
	p.omitted(len(p.status.Problems), shown, "more problem", "more problems")
	p.findings(true)
}

// resumed writes the modules whose deletion goes on when an operator starts. resumed writes nothing
// if an operator runs.
func (p *statusPage) resumed() {
	if p.status.Live {
		return
	}
	var texts []string
	for i := range p.status.Modules {
		if m := &p.status.Modules[i]; m.State == ModuleDeleting {
			texts = append(texts, resumedDeletion(m.Name, m.Reason))
		}
	}
	shown := p.shownProblems(len(texts))
	for _, text := range texts[:shown] {
		lead := p.layout.paint(yellow, "!") + " "
		for _, line := range wrap(text, p.layout.width()-2) {
			p.line(lead + line)
			lead = "  "
		}
	}
	p.omitted(len(texts), shown, "more module that is being deleted", "more modules that are being deleted")
}

// findings writes some findings of the status. If load is true, these are the findings whose pattern is about load, as
// [Pattern.isLoad] reports. If load is false, these are the other findings.
func (p *statusPage) findings(load bool) {
	l, found := p.layout, false
	for i := range p.status.Findings {
		f := &p.status.Findings[i]
		if f.Pattern.isLoad() != load {
			continue
		}
		found = true
		text := string(f.Pattern) + ": " + f.Text
		if !f.Since.IsZero() {
			text += ", since " + l.Clock(f.Since)
		}
		lead := l.paint(red, l.ascii("✖", "x")) + " "
		for _, line := range l.lines(text, l.width()-2, 3) {
			p.line(lead + line)
			lead = "  "
		}
	}
	if found {
		p.line("  next:  " + strings.TrimSpace(l.Program+" diagnose"+l.More))
	}
}

// title writes a headline for a group of problems, with the time at which they began, and the error. groups is the
// number of groups.
func (p *statusPage) title(group []*Problem, groups int) {
	l, r := p.layout, group[0]
	text, since := r.Headline(l), r.Since
	if len(group) > 1 {
		text = alikeText(group)
		for _, other := range group {
			if other.Since.Before(since) {
				since = other.Since
			}
		}
	}
	switch {
	case since.IsZero():
	case r.Try > 1 || len(group) > 1:
		text += " since " + l.Clock(since)
	default:
		text += " at " + l.Clock(since)
	}
	if r.Error != "" {
		text += ": " + r.Error
	}
	lead := l.paint(red, l.ascii("✖", "x")) + " "
	most := 2
	if groups <= 2 {
		most = 4
	}
	for _, line := range l.lines(text, l.width()-2, most) {
		p.line(lead + line)
		lead = "  "
	}
}

// explain writes the meaning of the error of a group, the subjects of its steps if there are several, and the work
// behind the steps. The last lines show the state of the cluster, and the next command or the fix.
func (p *statusPage) explain(group []*Problem) {
	l, r := p.layout, group[0]
	labelled := func(label, text string, most int) {
		for _, line := range l.lines(text, l.width()-columns(label)-2, most) {
			p.line("  " + label + line)
			label = strings.Repeat(" ", columns(label))
		}
	}
	if r.Meaning != nil {
		labelled("means: ", r.Meaning.What, 3)
	}
	behind := r.Behind.text(l)
	if len(group) > 1 {
		labelled("of:    ", p.subjects(group), 2)
		behind = behindAll(group)
	}
	if behind != "" {
		labelled("waits: ", behind, 1)
	}
	command := r.next(p.status.Live)
	if leaves := leftByAll(group); leaves != "" {
		labelled("state: ", leaves, 2)
	}
	if r.Held > 0 {
		labelled("waits: ", plural(r.Held, "task", "tasks")+" of the same module or hook, held until it is released or skipped", 2)
	}
	if len(command) == 0 {
		lead := "  fix:   "
		for _, line := range wrapFix(r.fix(), l.width()-columns(lead)) {
			p.line(lead + line)
			lead = "         "
		}
	}
	if len(command) > 0 {
		p.line("  next:  " + l.command(command...))
	}
}

// subjects lists the subjects of a group, as arguments of the command why.
func (p *statusPage) subjects(group []*Problem) string {
	var names []string
	for _, step := range group {
		names = appendNew(names, step.about())
	}
	if more := len(names) - mostNamed; more > 0 && !p.layout.whole() {
		names = append(names[:mostNamed], "and "+strconv.Itoa(more)+" more")
	}
	return strings.Join(names, ", ")
}

// next returns the arguments of a command that explains the problem and changes nothing. The result
// is nil if the text of the problem is enough.
func (r *Problem) next(live bool) []string {
	switch {
	case r.Kind == KindStalled && live:
		return []string{"queue", "show", r.Queue}
	case r.Kind == KindFailing || r.Kind == KindSlow || r.Kind == KindQuarantined:
		return []string{"why", r.about()}
	default:
		return nil
	}
}

// section writes the first lines of a section: its name and its summary.
func (p *statusPage) section(name, summary string) {
	const column = 10
	for i, part := range wrap(summary, p.layout.width()-column) {
		if i > 0 {
			name = ""
		}
		p.line(p.layout.paint(bold, fill(name, column)) + part)
	}
}

// modules writes the number of modules in each state, and a row for each module that is neither on
// nor off. If the layout cuts nothing, each module has a row of its own.
func (p *statusPage) modules() {
	counts := map[ModuleState]int{}
	var rows []*StatusModule
	for i := range p.status.Modules {
		m := &p.status.Modules[i]
		counts[m.State]++
		if p.layout.whole() || m.State != ModuleOn && m.State != ModuleOff {
			rows = append(rows, m)
		}
	}
	var parts []string
	for i := len(gravest) - 1; i > 0; i-- {
		if n := counts[gravest[i]]; n > 0 {
			parts = append(parts, strconv.Itoa(n)+" "+string(gravest[i]))
		}
	}
	if len(parts) == 0 {
		parts = []string{"none"}
	}
	p.section("modules", strings.Join(parts, ", "))
	if p.shown(len(rows)) == 0 {
		return
	}
	table := [][]string{{"MODULE", "STATE", "SINCE", "LAST RUN", "REVISION", "REASON"}}
	for _, m := range rows[:p.shown(len(rows))] {
		table = append(table, p.module(m))
	}
	p.table(table)
	p.omitted(len(rows), p.shown(len(rows)), "more module", "more modules")
}

// module returns the row of a module.
func (p *statusPage) module(m *StatusModule) []string {
	revision, last := "-", "-"
	if m.Revision > 0 {
		revision = strconv.Itoa(m.Revision)
	}
	if !m.LastRunAt.IsZero() {
		last = age(p.layout.Now.Sub(m.LastRunAt)) + " ago"
	}
	reason := m.Reason
	if (m.State == ModuleFailing || m.State == ModuleQuarantined) && !p.layout.whole() {
		reason, _, _ = strings.Cut(reason, ": ") // the error is shown with the problem
	}
	return []string{m.Name, string(m.State), p.ago(m.Since), last, revision, reason}
}

// ago returns the time since t; "-" if t is not known.
func (p *statusPage) ago(t time.Time) string {
	if t.IsZero() {
		return "-"
	}
	return age(p.layout.Now.Sub(t))
}

// table writes a table. Each row has one line, or several lines if the layout cuts nothing.
func (p *statusPage) table(rows [][]string) {
	l := p.layout
	l.Width = max(l.width()-2, 0)
	for line := range strings.Lines(l.rows(rows, 1)) {
		p.line("  " + strings.TrimSuffix(line, "\n"))
	}
}

// queues writes the number of pending tasks, and a row for each blocked queue if an operator runs.
func (p *statusPage) queues() {
	tasks, more, stuck := p.status.Later, "", []*StatusQueue(nil)
	for i := range p.status.Queues {
		q := &p.status.Queues[i]
		tasks += q.Tasks
		if q.More {
			more = " or more"
		}
		if !q.Moves() {
			stuck = append(stuck, q)
		}
	}
	summary := "no pending tasks"
	if tasks > 0 {
		summary = plural(tasks, "pending task", "pending tasks") + more
		switch queues := len(p.status.Queues); {
		case queues > 0:
			summary += " in " + plural(queues, "queue", "queues")
		case p.status.Later > 0:
			summary += ", due later or held"
		}
		if p.status.Later > 0 && len(p.status.Queues) > 0 {
			summary += ", " + strconv.Itoa(p.status.Later) + " of them due later or held"
		}
		if len(stuck) > 0 && p.status.Live {
			summary += "; " + plural(len(stuck), "queue waits", "queues wait")
		}
	}
	p.section("queues", summary)
	if p.shown(len(stuck)) == 0 || !p.status.Live {
		return
	}
	table := [][]string{{"QUEUE", "TASKS", "HEAD SINCE", "HEAD: REASON"}}
	for _, q := range stuck[:p.shown(len(stuck))] {
		table = append(table, []string{q.Name, strconv.Itoa(q.Tasks), p.ago(q.Since), q.Head.name() + ": " + p.waits(q)})
	}
	p.table(table)
	p.omitted(len(stuck), p.shown(len(stuck)), "more queue", "more queues")
}

// waits returns the reason why the task at the head of q does not run. q.Wait must not be nil.
func (p *statusPage) waits(q *StatusQueue) string {
	if q.Wait.Held == nil {
		return string(q.Wait.For)
	}
	return p.layout.blocked(q.Wait.Held)
}

// running writes the running tasks.
func (p *statusPage) running() {
	all := p.status.Running
	if len(all) == 0 {
		p.section("running", "nothing")
		return
	}
	p.section("running", plural(len(all), "task", "tasks"))
	if p.shown(len(all)) == 0 {
		return
	}
	table := [][]string{{"TASK", "SINCE", "RUN", "WHAT"}}
	for i := range all[:p.shown(len(all))] {
		t := &all[i]
		what := t.name()
		if t.Slow {
			what += "; takes long"
		}
		table = append(table, []string{t.Task.String(), p.ago(t.Since), id(t.Run), what})
	}
	p.table(table)
	p.omitted(len(all), p.shown(len(all)), "more task", "more tasks")
}

// store writes the path of the store, its size, and the free space on its disk, as far as they are known.
func (p *statusPage) store() {
	o := &p.status.Operator
	if o.Store == "" {
		return
	}
	text := o.Store
	if o.StoreBytes > 0 {
		text += ", " + Size(uint64(o.StoreBytes))
	}
	if o.FreeBytes != nil {
		text += ", " + Size(*o.FreeBytes) + " free on its disk"
	}
	p.section("store", text)
}

// Size returns a number of bytes with a binary unit, such as "1.5 MiB".
func Size(n uint64) string {
	units := []string{"B", "KiB", "MiB", "GiB", "TiB"}
	x, i := float64(n), 0
	for x >= 1024 && i < len(units)-1 {
		x, i = x/1024, i+1
	}
	if i == 0 {
		return fmt.Sprintf("%d B", n)
	}
	return fmt.Sprintf("%.1f %s", x, units[i])
}
