package inspect

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/rogpeppe/go-internal/diff"
)

// mostFields is the maximum number of changed fields that are shown for one object or section, if the layout cuts
// texts. It is also the maximum number of changed lines that are shown for one field.
const mostFields = 12

// PlanText returns p as lines for a terminal. The text begins with a summary of the changes, the problems and the
// limits of the plan. The changes of each module follow, with their reasons. The text ends with the hooks that would
// run.
func PlanText(p *Plan, layout Layout) string {
	page := &planPage{page{layout: layout}}
	page.write(p)
	return strings.Join(page.lines, "\n") + "\n"
}

type planPage struct{ page }

func (p *planPage) write(plan *Plan) {
	p.head(plan)
	for _, text := range plan.Problems {
		p.item(p.layout.paint(red, p.layout.ascii("✖", "x"))+" ", text)
	}
	for _, text := range plan.Limits {
		p.item(p.layout.ascii("•", "*")+" ", text)
	}
	if len(plan.Values) > 0 {
		p.line("")
		p.line(p.layout.paint(bold, "global values"))
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

// head writes the summary of the changes in one line, and the basis of the plan in the next.
func (p *planPage) head(plan *Plan) {
	text := "Plan: " + plan.Counts.text()
	if !plan.Changes {
		text = "Plan: nothing would change"
		if plan.Failed() {
			text = "Plan: incomplete, because modules would fail"
		}
	}
	for _, line := range wrap(text, p.layout.width()) {
		p.line(p.layout.paint(bold, line))
	}
	for _, line := range wrap(plan.Basis, p.layout.width()) {
		p.line(p.layout.paint(grey, line))
	}
}

// text describes the changes of a plan that changes something.
func (c *PlanCounts) text() string {
	switch *c {
	case PlanCounts{}:
		return "only values would change"
	case PlanCounts{Upgraded: c.Upgraded}:
		return plural(c.Upgraded, "release", "releases") + " would be upgraded, and no object would change"
	}
	text := fmt.Sprintf("%s on, %d off, %d purged; objects: %d created, %d changed, %d deleted",
		plural(c.On, "module", "modules"), c.Off, c.Purged, c.Created, c.Changed, c.Deleted)
	if c.HandedOver > 0 {
		text += fmt.Sprintf(", %d handed over", c.HandedOver)
	}
	return text
}

// item writes a text after lead. The further lines of the text are indented by the width of lead.
func (p *planPage) item(lead, text string) {
	for line := range strings.SplitSeq(strings.TrimRight(p.layout.Item(lead, flat(text), ""), "\n"), "\n") {
		p.line(line)
	}
}

// titles has the verb of each action on a module, for the line above its changes.
var titles = map[PlanAction]string{
	PlanOn: "is switched on", PlanOff: "is switched off", PlanPurge: "is purged", PlanRun: "is run", PlanNone: "is not run",
}

func (p *planPage) module(m *PlanModule) {
	p.line("")
	title := "module " + m.Name + " " + titles[m.Action]
	if m.Action == PlanPurge {
		title = "release " + m.Name + " " + titles[m.Action]
	}
	p.line(p.layout.paint(bold, title))
	if m.Why != "" {
		p.item("  why: ", m.Why)
	}
	if m.Error != "" {
		p.item(p.layout.paint(red, "  would fail: "), m.Error)
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
	p.line("  " + p.layout.paint(colour, sign+" "+text))
	if o.Note != "" {
		p.item("      not checked by the API server: ", o.Note)
	}
	p.fields("      ", o.Fields)
}

// fields writes changed fields, each in one line. If both values of a field are texts, and one of them has several
// lines, fields writes the changed lines below the path.
func (p *planPage) fields(indent string, fields []FieldChange) {
	shown := len(fields)
	if !p.layout.whole() {
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
		from, to := fieldText(f.Old), fieldText(f.New)
		if from == to { // the values differ only in type, such as "true" and true
			from, to = jsonText(f.Old), jsonText(f.New)
		}
		p.item(indent+f.Path+": ", from+" "+p.layout.ascii("→", "->")+" "+to)
	}
	if more := len(fields) - shown; more > 0 {
		p.line(indent + p.layout.dots() + " and " + plural(more, "field", "fields") + "; -o wide shows all")
	}
}

// lineDiff writes the lines that differ between two texts.
func (p *planPage) lineDiff(indent, before, after string) {
	lines := strings.Split(strings.TrimRight(string(diff.Diff("", []byte(before), "", []byte(after))), "\n"), "\n")
	written := 0
	for _, line := range lines[min(3, len(lines)):] { // without the heading, because there are no file names
		if strings.HasPrefix(line, "@@") || strings.HasPrefix(line, " ") {
			continue
		}
		if written++; written > mostFields && !p.layout.whole() {
			p.line(indent + p.layout.dots() + " and more lines; -o wide shows all")
			return
		}
		line = indent + strings.Map(printable, controls.ReplaceAllString(line, ""))
		if !p.layout.whole() {
			line = p.layout.clip(line, p.layout.width())
		}
		p.line(line)
	}
}

// fieldText returns a value as short text; "none" for a field that does not exist. A string is quoted
// only if it is empty, is "none", or contains a blank, a line break or a quote.
func fieldText(v any) string {
	if v == nil {
		return "none"
	}
	text, isText := v.(string)
	if isText && text != "" && !strings.ContainsAny(text, " \t\n\"") && text != "none" {
		return text
	}
	return jsonText(v)
}

// jsonText returns a value as JSON.
func jsonText(v any) string {
	text, err := json.Marshal(v)
	if err != nil {
		return fmt.Sprint(v)
	}
	return string(text)
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
	for line := range strings.SplitSeq(strings.TrimRight(p.layout.Table(rows), "\n"), "\n") {
		p.line("  " + line)
	}
}

// hooksText lists the names of hooks. Adjacent hooks with the same kind of binding are one group.
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
