package webui

import (
	"html"
	"html/template"
	"regexp"
	"slices"
	"strings"

	"addon-operator/workflow/inspect"
)

// commandBegins matches the first word of a command in prose. commandEnds matches the text that follows a
// command.
var (
	commandBegins = regexp.MustCompile(`(?:^|[ (])((?:kubectl|chmod|helm|chronyc|addon-operator) [a-z+-])`)
	commandEnds   = regexp.MustCompile(`[.,;:)]( |$)|\.$| (says|has|have|names|and|or|in|on|of|reaches|shows|with|again|to|until|also) | \(|[)]|$`)
)

// nouns matches text that begins with the name of the program but is not a command, such as "addon-operator v1".
var nouns = regexp.MustCompile(`^addon-operator (is|has|was|cannot|must|does|v\d)`)

// copyButton is a button that copies the code element before it. Without JavaScript, the button is
// not shown.
const copyButton = ` <button type="button" class="copy" aria-label="Copy the command">Copy</button>`

// Copy returns a button that copies the code element before it.
func (*frame) Copy() template.HTML { return copyButton }

// Prose returns text as HTML. Secrets are masked, because the text can quote the output of a hook. Commands in the text
// become code elements.
func (f *frame) Prose(text string) template.HTML { return prose(f.Redacted(text), "") }

// ProseToCopy is Prose with a copy button behind each command.
func (f *frame) ProseToCopy(text string) template.HTML { return prose(f.Redacted(text), copyButton) }

// breakable inserts a possible line break after each slash, so that a browser can wrap a long path.
var breakable = strings.NewReplacer("/", "/<wbr>")

// prose returns text as HTML, with its commands as code elements. prose inserts the argument behind, which is HTML,
// after each command.
func prose(text, behind string) template.HTML {
	var out strings.Builder
	escape := func(text string) string { return breakable.Replace(html.EscapeString(text)) }
	for {
		at := commandBegins.FindStringSubmatchIndex(text)
		if at == nil {
			break
		}
		begin, rest := at[2], at[3]
		end := rest + commandEnds.FindStringIndex(text[rest:])[0]
		out.WriteString(escape(text[:begin]))
		if command := escape(text[begin:end]); nouns.MatchString(text[begin:]) {
			out.WriteString(command)
		} else {
			out.WriteString("<code>" + command + "</code>" + behind)
		}
		text = text[end:]
	}
	out.WriteString(escape(text))
	return template.HTML(out.String()) //nolint:gosec // each part of the result is escaped
}

// An adviceGroup has those commands of an advice that are shown in one group.
type adviceGroup struct {
	// Danger is set if the commands are hard to undo.
	Danger   bool
	Commands []shownCommand
}

// A shownCommand is a command to copy. Link leads to the view that shows the output of the command, or the task that
// the command changes. Link is empty if there is no such view, if that view is the open view, or if an earlier command
// has the same link.
type shownCommand struct {
	Text, Why string
	Link      viewLink
}

// harmless has the commands that change something, but are easy to undo, or only repeat something that the operator
// does by itself.
var harmless = []string{"hook run", "pause", "resume", "task cancel", "task release", "task retry"}

// Grouped returns the commands of an advice in up to two groups. Commands that are hard to undo are in the last group.
func (f *frame) Grouped(all []inspect.Advice) (groups []adviceGroup) {
	linked := []string{f.Here, ""}
	for _, danger := range []bool{false, true} {
		g := adviceGroup{Danger: danger}
		for i := range all {
			a := &all[i]
			if hardToUndo(a) != danger {
				continue
			}
			c := shownCommand{Text: f.Shell(a.Args), Why: a.Why}
			if link := commandView(a.Args); !slices.Contains(linked, link.URL) {
				c.Link, linked = link, append(linked, link.URL)
			}
			g.Commands = append(g.Commands, c)
		}
		if len(g.Commands) > 0 {
			groups = append(groups, g)
		}
	}
	return groups
}

// hardToUndo reports whether a command changes something, has a described effect, and is not in harmless.
func hardToUndo(a *inspect.Advice) bool {
	command := strings.Join(a.Args, " ") + " "
	return a.Why != "" && !a.ChangesNothing() && !slices.ContainsFunc(harmless, func(c string) bool { return strings.HasPrefix(command, c+" ") })
}

// Remedy returns the command of a problem with its effect; nil if the problem has no command.
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
