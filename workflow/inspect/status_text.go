package inspect

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// statusHeight is the number of lines of a status on a terminal, so that the prompt below it fits on
// a screen of 24 lines.
const statusHeight = 23

// mostRows is how many problems, modules, queues and running tasks a status shows at most where it
// leaves out any.
const mostRows = 12

// StatusText returns s as lines for a terminal: whether something needs a person, the problems with
// the commands to type next, and one section each for modules, queues, running tasks and the store.
// Unless the look cuts nothing off, there are at most 23 lines, and modules without a problem are only
// counted.
func StatusText(s *Status, look Look) string {
	if look.Now.IsZero() {
		look.Now = s.At
	}
	height := statusHeight
	if look.Height > 0 {
		height = look.Height
	}
	for most := mostRows; ; most-- {
		p := &statusPage{page: page{look: look}, status: s, most: most}
		p.write()
		if len(p.lines) <= height || most == 1 || look.whole() {
			return strings.Join(p.lines, "\n") + "\n"
		}
	}
}

// A statusPage is the text of a status under way.
type statusPage struct {
	page
	status *Status
	most   int // rows of each section
}

func (p *statusPage) write() {
	p.verdict()
	p.problems()
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

// shown returns how many of n rows are shown.
func (p *statusPage) shown(n int) int {
	if p.look.whole() {
		return n
	}
	return min(n, p.most)
}

// omitted says how many rows of a section are left out.
func (p *statusPage) omitted(n int, one, many string) {
	if left := n - p.shown(n); left > 0 {
		p.line("  " + p.look.dots() + " and " + plural(left, one, many) + "; see them with " + strings.TrimSpace(p.look.Program+" status -o wide"+p.look.More))
	}
}

// verdict says in the first line whether something needs a person, and in the second who says so.
func (p *statusPage) verdict() {
	l := p.look
	text, state := p.status.Verdict()
	icon, colour := looks[state].icon, looks[state].colour
	if l.ASCII {
		icon = looks[state].ascii
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
}

// Verdict says in a sentence whether something needs a person. The state shows it in one word: [Failing] if something does,
// else [Done], [Running] while the converge of the start is in progress, or [Waiting] where nothing is processed.
func (s *Status) Verdict() (text string, state State) {
	switch n := len(s.Problems); {
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

// process returns what is known of the process and its last converge.
func (p *statusPage) process() []string {
	s, l := p.status, p.look
	parts := []string{"store of a stopped operator"}
	if s.Live {
		parts[0] = strings.TrimSpace("addon-operator " + s.Operator.Version)
		if !s.Operator.Started.IsZero() {
			parts = append(parts, "up "+age(l.Now.Sub(s.Operator.Started)))
		}
		if s.Attention && s.Operator.Standby != "" {
			parts = append(parts, "standby: "+s.Operator.Standby)
		}
	}
	parts = append(parts, "epoch "+id(s.Epoch))
	if s.Converged.IsZero() {
		return append(parts, "never converged")
	}
	text := "converged " + l.Clock(s.Converged) + l.zone(s.Converged) + " (run " + id(s.ConvergedRun) + ")"
	if s.Starting {
		text = "last " + text + ", before this start"
	}
	return append(parts, text)
}

// problems writes the problems, each with the command to type next.
func (p *statusPage) problems() {
	all := p.status.Problems
	if len(all) == 0 {
		return
	}
	p.line("")
	for i := range all[:p.shown(len(all))] {
		r := &all[i]
		if r.stored() {
			p.stored(r)
			continue
		}
		p.title(r)
		if command := r.next(p.status.Live); len(command) > 0 {
			p.line("  next: " + strings.TrimSpace(p.look.Program+" "+strings.Join(command, " ")+p.look.More))
		}
	}
	p.omitted(len(all), "more problem", "more problems")
}

// title writes what is wrong, since when, and the error.
func (p *statusPage) title(r *Problem) {
	l := p.look
	text := p.page.look.title(r)
	if r.Try > 1 && !r.Since.IsZero() {
		text += " since " + l.Clock(r.Since)
	}
	if r.Error != "" {
		text += ": " + r.Error
	}
	lead := l.paint(red, l.ascii("✖", "x")) + " "
	for _, line := range l.lines(text, l.width()-2, 2) {
		p.line(lead + line)
		lead = "  "
	}
}

// next returns the command that shows more of the problem, without the program. It changes nothing. It is
// empty where the error says all.
func (r *Problem) next(live bool) []string {
	switch {
	case r.Kind == KindStalled && live:
		return []string{"queue", "show", r.Queue}
	case r.Kind == KindBroken || r.Kind == KindNoCRDs || r.Kind == KindFull || r.Kind == KindAPIServer || r.Run == 0:
		return nil
	default:
		return []string{"workflow", "inspect", id(r.Run)}
	}
}

// section writes the name of a section and its summary.
func (p *statusPage) section(name, summary string) {
	const column = 10
	for i, part := range wrap(summary, p.look.width()-column) {
		if i > 0 {
			name = ""
		}
		p.line(p.look.paint(bold, fill(name, column)) + part)
	}
}

// modules writes how many modules are in which state, and a row for each that is neither on nor off; for
// all where nothing is left out.
func (p *statusPage) modules() {
	counts := map[ModuleState]int{}
	var rows []*StatusModule
	for i := range p.status.Modules {
		m := &p.status.Modules[i]
		counts[m.State]++
		if p.look.whole() || m.State != ModuleOn && m.State != ModuleOff {
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
	if len(rows) == 0 {
		return
	}
	table := [][]string{{"MODULE", "STATE", "SINCE", "LAST RUN", "REVISION", "REASON"}}
	for _, m := range rows[:p.shown(len(rows))] {
		table = append(table, p.module(m))
	}
	p.table(table)
	p.omitted(len(rows), "more module", "more modules")
}

// module returns the row of a module.
func (p *statusPage) module(m *StatusModule) []string {
	revision, last := "-", "-"
	if m.Revision > 0 {
		revision = strconv.Itoa(m.Revision)
	}
	if !m.LastRunAt.IsZero() {
		last = age(p.look.Now.Sub(m.LastRunAt)) + " ago"
	}
	return []string{m.Name, string(m.State), p.ago(m.Since), last, revision, m.Reason}
}

// ago returns how long ago t was, "-" if that is not known.
func (p *statusPage) ago(t time.Time) string {
	if t.IsZero() {
		return "-"
	}
	return age(p.look.Now.Sub(t))
}

// table writes a table with one line for each row, unless nothing is cut off.
func (p *statusPage) table(rows [][]string) {
	l := p.look
	l.Width = max(l.width()-2, 0)
	for line := range strings.Lines(l.rows(rows, 1)) {
		p.line("  " + strings.TrimSuffix(line, "\n"))
	}
}

// queues writes how many tasks there are, and a row for each queue that does not move.
func (p *statusPage) queues() {
	tasks, more, stuck := p.status.Later, "", []*StatusQueue(nil)
	for i := range p.status.Queues {
		q := &p.status.Queues[i]
		tasks += q.Tasks
		if q.More {
			more = " or more"
		}
		if !q.moves() {
			stuck = append(stuck, q)
		}
	}
	summary := "no pending tasks"
	if tasks > 0 {
		summary = plural(tasks, "pending task", "pending tasks") + more + " in " + plural(len(p.status.Queues), "queue", "queues")
		if p.status.Later > 0 {
			summary += ", " + strconv.Itoa(p.status.Later) + " of them due later or held"
		}
		if len(stuck) > 0 && p.status.Live {
			summary += "; " + plural(len(stuck), "queue waits", "queues wait")
		}
	}
	p.section("queues", summary)
	if len(stuck) == 0 || !p.status.Live {
		return
	}
	table := [][]string{{"QUEUE", "TASKS", "HEAD SINCE", "HEAD: REASON"}}
	for _, q := range stuck[:p.shown(len(stuck))] {
		table = append(table, []string{q.Name, strconv.Itoa(q.Tasks), p.ago(q.Since), q.Head.name() + ": " + p.waits(q)})
	}
	p.table(table)
	p.omitted(len(stuck), "more queue", "more queues")
}

// waits says why the head of q is not being done.
func (p *statusPage) waits(q *StatusQueue) string {
	if q.Wait.Held == nil {
		return string(q.Wait.For)
	}
	return p.look.blocked(q.Wait.Held)
}

// running writes the tasks in progress.
func (p *statusPage) running() {
	all := p.status.Running
	if len(all) == 0 {
		p.section("running", "nothing")
		return
	}
	p.section("running", plural(len(all), "task", "tasks"))
	table := [][]string{{"TASK", "SINCE", "RUN", "WHAT"}}
	for i := range all[:p.shown(len(all))] {
		t := &all[i]
		what := t.name()
		if t.Slow {
			what += "; far longer than ever"
		}
		table = append(table, []string{t.Task.String(), p.ago(t.Since), id(t.Run), what})
	}
	p.table(table)
	p.omitted(len(all), "more task", "more tasks")
}

// store writes where the store is, and how much room there is.
func (p *statusPage) store() {
	o := &p.status.Operator
	if o.Store == "" {
		return
	}
	text := o.Store
	if o.StoreBytes > 0 {
		text += ", " + size(uint64(o.StoreBytes))
	}
	if o.FreeBytes > 0 {
		text += ", " + size(o.FreeBytes) + " free on its disk"
	}
	p.section("store", text)
}

// size returns a number of bytes as Kubernetes writes quantities.
func size(n uint64) string {
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
