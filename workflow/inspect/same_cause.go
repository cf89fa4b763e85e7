package inspect

import (
	"regexp"
	"slices"
)

// exitOnly matches an error that has only the exit code of a hook.
var exitOnly = regexp.MustCompile(`^exit status \d+$`)

// sameCause groups problems by their likely cause. Failing steps are one group if their errors have the same known
// meaning or the same text. An error that has only the exit code of a hook says nothing about its cause, so its step is
// a group of its own. Each problem that is not a failing step is also a group of its own. The groups are in the order
// of their first problems.
func sameCause(problems []Problem) (groups [][]*Problem) {
	numbers := map[string]int{} // index of the group in groups, by cause
	for i := range problems {
		p := &problems[i]
		cause := p.cause()
		if n, known := numbers[cause]; known && cause != "" {
			groups[n] = append(groups[n], p)
			continue
		}
		numbers[cause] = len(groups)
		groups = append(groups, []*Problem{p})
	}
	for _, group := range groups {
		// The error of a step without a hook shows more about a missing right than the error of a hook.
		if i := slices.IndexFunc(group, func(p *Problem) bool { return p.Meaning != nil && p.Meaning.byOperator }); i > 0 {
			group[0], group[i] = group[i], group[0]
		}
	}
	return groups
}

// cause returns a text that is the same for all failing steps with the same cause; empty if the cause is not known.
func (p *Problem) cause() string {
	switch {
	case p.Kind != KindFailing:
		return ""
	case p.Meaning != nil:
		return p.Meaning.reason()
	case exitOnly.MatchString(p.Error):
		return ""
	default:
		return p.Error
	}
}

// alikeText describes a group of several failing steps: their number, and whether they have the same reason or the same
// error.
func alikeText(group []*Problem) string {
	text := plural(len(group), "step fails", "steps fail")
	if group[0].Meaning != nil {
		return text + " for the same reason"
	}
	return text + " with the same error"
}

// behindAll describes the work behind the steps of a group; empty if there is none.
func behindAll(group []*Problem) string {
	steps := map[string]int{} // by queue
	for _, p := range group {
		if b := p.Behind; b != nil {
			steps[b.Queue] = max(steps[b.Queue], b.Run+b.Tasks)
		}
	}
	total := 0
	for _, n := range steps {
		total += n
	}
	if total == 0 {
		return ""
	}
	return plural(total, "step", "steps") + " behind them in " + plural(len(steps), "queue", "queues")
}

// leftByAll returns [Problem.Leaves] of the steps of a group; empty if it is not the same for all of them.
func leftByAll(group []*Problem) string {
	for _, p := range group[1:] {
		if p.Leaves != group[0].Leaves {
			return ""
		}
	}
	return group[0].Leaves
}

// appendNew appends name to names if names does not contain it.
func appendNew(names []string, name string) []string {
	if slices.Contains(names, name) {
		return names
	}
	return append(names, name)
}
