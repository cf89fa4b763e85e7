package inspect

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/rogpeppe/go-internal/diff"
)

// mostFields is how many changed fields of an object or a section are shown where some are left out.
const mostFields = 12

// PlanText returns p as lines for a terminal: what changes in one line, what the plan could not find out, then module
// by module what changes and why, and at the end the hooks that would run.
func PlanText(p *Plan, look Look) string {
	page := &planPage{page{look: look}}
	page.write(p)
	return strings.Join(page.lines, "\n") + "\n"
}

type planPage struct{ page }

func (p *planPage) write(plan *Plan) {
	p.head(plan)
	for _, text := range plan.Problems {
		p.item(p.look.paint(red, p.look.ascii("✖", "x"))+" ", text)
	}
	for _, text := range plan.Limits {
		p.item(p.look.ascii("•", "*")+" ", text)
	}
	if len(plan.Values) > 0 {
		p.line("")
		p.line(p.look.paint(bold, "global values"))
		p.fields("  ", plan.Values)
	}
	var same []string
	for i := range plan.Modules {
		if m := &plan.Modules[i]; m.changes() {
			p.module(m)
		} else if m.Action == PlanRun {
			same = append(same, m.Name)
		}
	}
	if len(same) > 0 {
		p.line("")
		p.item("unchanged: ", strings.Join(same, ", "))
	}
	p.hooks(plan)
}

// head says in one line what the plan changes, and in the next what it was made from.
func (p *planPage) head(plan *Plan) {
	c := plan.Counts
	text := fmt.Sprintf("Plan: %s on, %d off, %d purged; objects: %d created, %d changed, %d deleted",
		plural(c.On, "module", "modules"), c.Off, c.Purged, c.Created, c.Changed, c.Deleted)
	if c.HandedOver > 0 {
		text += fmt.Sprintf(", %d handed over", c.HandedOver)
	}
	if !plan.Changes {
		text = "Plan: nothing would change"
		if plan.Failed() {
			text = "Plan: incomplete, because modules would fail"
		}
	}
	for _, line := range wrap(text, p.look.width()) {
		p.line(p.look.paint(bold, line))
	}
	for _, line := range wrap(plan.Basis, p.look.width()) {
		p.line(p.look.paint(grey, line))
	}
}

// item writes a text with a lead, whose further lines are indented by the width of the lead.
func (p *planPage) item(lead, text string) {
	for line := range strings.SplitSeq(strings.TrimRight(p.look.Item(lead, flat(text), ""), "\n"), "\n") {
		p.line(line)
	}
}

// titles say what becomes of a module.
var titles = map[PlanAction]string{
	PlanOn: "is switched on", PlanOff: "is switched off", PlanPurge: "is purged", PlanRun: "is run", PlanNone: "stays off",
}

func (p *planPage) module(m *PlanModule) {
	p.line("")
	title := "module " + m.Name + " " + titles[m.Action]
	if m.Action == PlanPurge {
		title = "release " + m.Name + " " + titles[m.Action]
	}
	p.line(p.look.paint(bold, title))
	if m.Why != "" {
		p.item("  why: ", m.Why)
	}
	if m.Error != "" {
		p.item(p.look.paint(red, "  would fail: "), m.Error)
	}
	switch {
	case m.Revision > 0:
		p.item(fmt.Sprintf("  release: revision %d: ", m.Revision), m.Release)
	case m.Release != "":
		p.item("  release: ", m.Release)
	}
	if len(m.Values) > 0 {
		p.line("  values")
		p.fields("    ", m.Values)
	}
	for _, o := range m.CRDs {
		p.object(o)
	}
	for _, o := range m.Objects {
		p.object(o)
	}
}

func (p *planPage) object(o PlanObject) {
	sign, colour := "~", yellow
	switch o.Action {
	case ObjectCreated:
		sign, colour = "+", green
	case ObjectDeleted:
		sign, colour = "-", red
	case ObjectHandedOver:
		sign, colour = ">", blue
	}
	text := o.String() + " " + o.Action
	if o.From != "" {
		text += ", from release " + o.From
	}
	p.line("  " + p.look.paint(colour, sign+" "+text))
	if o.Note != "" {
		p.item("      not checked by the API server: ", o.Note)
	}
	p.fields("      ", o.Fields)
}

// fields writes changed fields, each on one line, or below it the changed lines of a text.
func (p *planPage) fields(indent string, fields []FieldChange) {
	shown := len(fields)
	if !p.look.whole() {
		shown = min(shown, mostFields)
	}
	for _, f := range fields[:shown] {
		before, isText := f.Old.(string)
		after, isAlso := f.New.(string)
		if isText && isAlso && strings.Contains(before+after, "\n") {
			p.line(indent + f.Path + ":")
			p.lineDiff(indent+"  ", before, after)
			continue
		}
		arrow := p.look.ascii("→", "->")
		p.item(indent+f.Path+": ", fieldText(f.Old, f.Old == nil)+" "+arrow+" "+fieldText(f.New, f.New == nil))
	}
	if more := len(fields) - shown; more > 0 {
		p.line(indent + p.look.dots() + " and " + plural(more, "field", "fields") + "; -o wide shows all")
	}
}

// lineDiff writes the lines that differ in two texts.
func (p *planPage) lineDiff(indent, before, after string) {
	lines := strings.Split(strings.TrimRight(string(diff.Diff("", []byte(before), "", []byte(after))), "\n"), "\n")
	written := 0
	for _, line := range lines[min(3, len(lines)):] { // the heading names no files
		if strings.HasPrefix(line, "@@") || strings.HasPrefix(line, " ") {
			continue
		}
		if written++; written > mostFields && !p.look.whole() {
			p.line(indent + p.look.dots() + " and more lines; -o wide shows all")
			return
		}
		p.line(p.look.clip(indent+line, p.look.width()))
	}
}

// fieldText returns a value as short text: strings as they are, unless that could be misread.
func fieldText(v any, absent bool) string {
	if absent {
		return "none"
	}
	text, isText := v.(string)
	if isText && text != "" && !strings.ContainsAny(text, " \t\n\"") && text != "none" {
		return text
	}
	encoded, err := json.Marshal(v)
	if err != nil {
		return fmt.Sprint(v)
	}
	return string(encoded)
}

// hooks lists the hooks that would run, module by module.
func (p *planPage) hooks(plan *Plan) {
	rows := [][]string{{"MODULE", "HOOKS"}}
	if len(plan.Hooks) > 0 {
		rows = append(rows, []string{"(global)", hooksText(plan.Hooks)})
	}
	for _, m := range plan.Modules {
		texts := []string{}
		if len(m.Hooks) > 0 {
			texts = append(texts, hooksText(m.Hooks))
		}
		for _, h := range m.HelmHooks {
			texts = append(texts, "Helm hook "+h.String())
		}
		if len(texts) > 0 {
			rows = append(rows, []string{m.Name, strings.Join(texts, "; ")})
		}
	}
	if len(rows) == 1 {
		return
	}
	p.line("")
	p.item("", "Hooks that would run. The plan did not run them; it uses the values that their last runs patched.")
	for line := range strings.SplitSeq(strings.TrimRight(p.look.Table(rows), "\n"), "\n") {
		p.line("  " + line)
	}
}

// hooksText names hooks, those of one kind of binding together.
func hooksText(hooks []PlanHook) string {
	var b strings.Builder
	binding := ""
	for i, h := range hooks {
		switch {
		case h.Binding != binding && i > 0:
			b.WriteString("; " + h.Binding + " ")
		case h.Binding != binding:
			b.WriteString(h.Binding + " ")
		default:
			b.WriteString(", ")
		}
		binding = h.Binding
		b.WriteString(h.Name)
	}
	return b.String()
}
