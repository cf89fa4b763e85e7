package webui

import (
	"html"
	"html/template"
	"regexp"
	"slices"
	"strings"

	"addon-operator/workflow/inspect"
)

// commandBegins finds commands in prose, and commandEnds what follows one.
var (
	commandBegins = regexp.MustCompile(`(?:^|[ (])((?:kubectl|chmod|helm|chronyc|addon-operator) [a-z+-])`)
	commandEnds   = regexp.MustCompile(`[.,;:)]( |$)|\.$| (says|has|have|names|and|or|in|on|of|reaches|shows|with|again|to|until|also) | \(|[)]|$`)
)

// nouns follow the name of the program where prose is about the program, as in "addon-operator v1".
var nouns = regexp.MustCompile(`^addon-operator (is|has|was|cannot|must|does|v\d)`)

// Prose returns text that may quote what a hook printed, without secrets. The commands in it are set as code.
func (f *frame) Prose(text string) template.HTML {
	var out strings.Builder
	for text = f.Redacted(text); ; {
		at := commandBegins.FindStringSubmatchIndex(text)
		if at == nil {
			break
		}
		begin, rest := at[2], at[3]
		end := rest + commandEnds.FindStringIndex(text[rest:])[0]
		out.WriteString(html.EscapeString(text[:begin]))
		if nouns.MatchString(text[begin:]) {
			out.WriteString(html.EscapeString(text[begin:end]))
		} else {
			out.WriteString("<code>" + html.EscapeString(text[begin:end]) + "</code>")
		}
		text = text[end:]
	}
	out.WriteString(html.EscapeString(text))
	return template.HTML(out.String()) //nolint:gosec // each part of it is escaped
}

// An adviceGroup is commands of one kind.
type adviceGroup struct {
	// Danger is set if the commands delete something, or leave work undone.
	Danger bool
	Advice []inspect.Advice
}

// harmless are the commands that change something and delete nothing.
var harmless = []string{"pause", "resume", "task cancel", "task release", "task retry"}

// Grouped returns the commands of an advice, those that are hard to undo last.
func (*frame) Grouped(all []inspect.Advice) (groups []adviceGroup) {
	safe, danger := adviceGroup{}, adviceGroup{Danger: true}
	for i := range all {
		if hardToUndo(&all[i]) {
			danger.Advice = append(danger.Advice, all[i])
		} else {
			safe.Advice = append(safe.Advice, all[i])
		}
	}
	for _, g := range []adviceGroup{safe, danger} {
		if len(g.Advice) > 0 {
			groups = append(groups, g)
		}
	}
	return groups
}

// hardToUndo reports whether a command does more than a person may expect of it.
func hardToUndo(a *inspect.Advice) bool {
	command := strings.Join(a.Args, " ") + " "
	return a.Why != "" && !a.ChangesNothing() && !slices.ContainsFunc(harmless, func(c string) bool { return strings.HasPrefix(command, c+" ") })
}

// Remedy returns the command of a problem with its effect, nothing if it has none.
func (*frame) Remedy(p inspect.Problem) []inspect.Advice {
	if len(p.Command) == 0 {
		return nil
	}
	a := inspect.Advice{Args: p.Command}
	if p.Effect != "" {
		a.Why = "this " + p.Effect
	}
	return []inspect.Advice{a}
}
