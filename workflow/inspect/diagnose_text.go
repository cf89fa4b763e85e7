package inspect

import (
	"slices"
	"strings"
)

// DiagnosisText returns d as text: each finding with its pattern, its evidence, the fix, and the
// next commands. Layout.Now must be set.
func DiagnosisText(d *Diagnosis, layout Layout) string {
	p := &page{layout: layout}
	if len(d.Findings) == 0 {
		p.line(layout.paint(bold+green, layout.ascii("✔", "+")+" no finding"))
		return strings.Join(p.lines, "\n") + "\n"
	}
	p.line(layout.paint(bold, plural(len(d.Findings), "finding", "findings")))
	for i := range d.Findings {
		p.line("")
		p.finding(&d.Findings[i])
	}
	return strings.Join(p.lines, "\n") + "\n"
}

// readers has the commands in advice that only show something. An entry such as "queue" is the beginning of several
// such commands.
var readers = []string{"diagnose", "global", "logs", "module list", "module patches", "queue", "status", "store check", "timeline", "values explain", "why", "workflow"}

// ChangesNothing reports whether the command of the advice only shows something.
func (a *Advice) ChangesNothing() bool {
	command := strings.Join(a.Args, " ")
	return slices.ContainsFunc(readers, func(reader string) bool { return strings.HasPrefix(command+" ", reader+" ") })
}

// finding writes a finding. finding does not cut commands, so that people can copy them.
func (p *page) finding(f *Finding) {
	l := p.layout
	lead := l.paint(red, l.ascii("✖", "x")) + " "
	for _, line := range wrap(string(f.Pattern)+": "+f.Text, l.width()-2) {
		p.line(lead + l.paint(bold, line))
		lead = "  "
	}
	for line := range strings.Lines(l.causes(f.Evidence, mostNearest)) {
		p.line(strings.TrimSuffix(line, "\n"))
	}
	p.remedy(f.Fix, f.Advice)
}

// remedy writes a fix, and below it commands with their purposes. If fix is empty, the commands that change something
// get the label of the fix.
func (p *page) remedy(fix string, advice []Advice) {
	lead := "  fix:  "
	for _, line := range wrapFix(fix, p.layout.width()-columns(lead)) {
		p.line(lead + line)
		lead = "        "
	}
	act := "then"
	if fix == "" {
		act = "fix"
	}
	p.advise(advice, act)
}

// advise writes commands with their purposes. advise does not cut commands, so that people can copy them. The parameter
// act is the label of commands that change something and do not replace the fix.
func (p *page) advise(all []Advice, act string) {
	l := p.layout
	for i := range all {
		a := &all[i]
		label := act
		switch {
		case a.ChangesNothing():
			label = "next"
		case a.Instead:
			label = "or"
		}
		line := "  " + fill(label+":", len("then: ")) + l.command(a.Args...)
		if comment := "  # " + a.Why; a.Why != "" && columns(line)+columns(comment) <= l.width() {
			p.line(line + l.paint(grey, comment))
			continue
		}
		p.line(line)
		if label != "next" && a.Why != "" {
			p.comment("        ", a.Why)
		}
	}
}

// comment writes text below a command, as a shell comment. The text says what the command does.
func (p *page) comment(indent, text string) {
	mark := "# "
	for _, part := range wrap(text, p.layout.width()-columns(indent)-columns(mark)) {
		p.line(indent + p.layout.paint(grey, mark+part))
		mark = "  "
	}
}
