package draw

import (
	"slices"
	"strings"

	"addon-operator/workflow/graph"
)

// names writes the meanings of all declared names, and the nodes that use them.
func (p *page) names() {
	var (
		begun    uses[graph.Trigger]
		asked    uses[graph.Fact]
		repeated uses[graph.FanOut]
		given    uses[graph.Input]
		returned uses[graph.Output]
	)
	for _, e := range p.g.Edges {
		begun.add(e.On, p.number(e.To))
		asked.add(e.When, p.number(e.From))
		asked.add(e.Unless, p.number(e.From))
	}
	for _, n := range p.g.Nodes {
		here := p.number(n.ID)
		repeated.add(n.ForEach, here)
		for _, e := range p.g.Edges {
			if e.From == n.ID {
				repeated.add(e.ForEach, here)
			}
		}
		for _, in := range n.Inputs {
			given.add(in, here)
		}
		for _, out := range n.Outputs {
			returned.add(out, here)
		}
	}
	declared(p, "Triggers", "leads to", begun, p.g.Triggers)
	declared(p, "Facts", "used by", asked, p.g.Facts)
	declared(p, "Fan-outs", "used by", repeated, p.g.FanOuts)
	declared(p, "Inputs", "received by", given, p.g.Inputs)
	declared(p, "Outputs", "returned by", returned, p.g.Outputs)
}

// number returns a short link to the section of the node.
func (p *page) number(id graph.NodeID) string {
	return "[" + short(p.g, id) + "](#" + anchor(p.g, id) + ")"
}

// uses is a list of those names of one kind that nodes use. For each name, it has links to these
// nodes. Names and links are in the order of their first use.
type uses[K ~string] struct {
	order []K
	by    map[K][]string
}

func (u *uses[K]) add(name K, link string) {
	if name == "" || slices.Contains(u.by[name], link) {
		return
	}
	if u.by == nil {
		u.by = map[K][]string{}
	}
	u.order = append(u.order, name)
	u.by[name] = append(u.by[name], link)
}

// declared writes the table of one kind of names.
func declared[K ~string](p *page, heading, use string, u uses[K], docs map[K]string) {
	var rows []string
	for _, name := range ordered(u.order, docs) {
		rows = append(rows, row(prose(string(name)), prose(docs[name]), strings.Join(u.by[name], ", ")))
	}
	if len(rows) > 0 {
		p.put("## " + heading)
		p.table("name | meaning | "+use, rows)
	}
}

// table writes a Markdown table with the header line head.
func (p *page) table(head string, rows []string) {
	line := strings.Repeat("|---", strings.Count(head, "|")+1)
	p.put("| " + head + " |\n" + line + "|\n" + strings.Join(rows, "\n"))
}

// row returns one row of a table.
func row(cells ...string) string {
	for i, c := range cells {
		cells[i] = strings.ReplaceAll(c, "|", `\|`)
	}
	return "| " + strings.Join(cells, " | ") + " |"
}
