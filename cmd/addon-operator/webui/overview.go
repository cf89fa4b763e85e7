package webui

import (
	"cmp"
	"net/http"
	"slices"
	"strconv"

	"addon-operator/workflow/inspect"
)

// An overview is the model of the start page, which shows what needs attention and what the operator does.
type overview struct {
	frame

	Status    inspect.Status
	Diagnosis inspect.Diagnosis
	// Verdict and VerdictState are the results of [inspect.Status.Verdict].
	Verdict      string
	VerdictState inspect.State
	// Counts has the number of modules in each state. Modules has the modules with a state that is neither on nor off.
	Counts  []moduleCount
	Modules []inspect.StatusModule
	// Stuck has the queues in which no task runs or is about to run; nil if no operator runs.
	Stuck []inspect.StatusQueue
	Pause pauseControl
}

// A moduleCount is a state with the number of modules in this state.
type moduleCount struct {
	State inspect.ModuleState
	Count int
}

func (p *reader) overview(r *http.Request) (model, error) {
	o := &overview{frame: p.frame(r, "Overview", command("status"), command("diagnose"))}
	if err := p.api.get(r.Context(), "/status", nil, &o.Status); err != nil {
		return nil, err
	}
	if err := p.api.get(r.Context(), "/diagnosis", nil, &o.Diagnosis); err != nil {
		return nil, err
	}
	o.Verdict, o.VerdictState = o.Status.Verdict()
	counts := map[inspect.ModuleState]int{}
	for i := range o.Status.Modules {
		m := o.Status.Modules[i]
		if counts[m.State]++; m.State != inspect.ModuleOn && m.State != inspect.ModuleOff {
			o.Modules = append(o.Modules, m)
		}
	}
	for state, n := range counts {
		o.Counts = append(o.Counts, moduleCount{state, n})
	}
	slices.SortFunc(o.Counts, func(a, b moduleCount) int {
		return cmp.Or(cmp.Compare(b.Count, a.Count), cmp.Compare(a.State, b.State))
	})
	if o.Status.Live {
		for i := range o.Status.Queues {
			if q := o.Status.Queues[i]; !q.Moves() {
				o.Stuck = append(o.Stuck, q)
			}
		}
	}
	o.Pause = pauseOf(o.Status.Problems, "all", "")
	return o, nil
}

// Summary describes the process of the operator and the last converge.
func (o *overview) Summary() string { return o.Status.ProcessText(o.layout) }

// TasksText says how many pending tasks are in queues, and how many are deferred or held.
func (o *overview) TasksText() string {
	n := 0
	for i := range o.Status.Queues {
		n += o.Status.Queues[i].Tasks
	}
	later := o.Status.Later
	switch {
	case n == 0 && later == 0:
		return "no pending tasks"
	case n == 0:
		return counted(later, "pending task") + ", due later or held, none in a queue"
	case later == 0:
		return counted(n, "pending task") + " in " + counted(len(o.Status.Queues), "queue")
	}
	return counted(n+later, "pending task") + ": " + strconv.Itoa(n) + " in " + counted(len(o.Status.Queues), "queue") + ", " +
		strconv.Itoa(later) + " due later or held"
}

// StoreText returns the path and the size of the store, and the free space on its disk.
func (o *overview) StoreText() string {
	text := o.Status.Operator.Store
	if n := o.Status.Operator.StoreBytes; n > 0 {
		text += ", " + inspect.Size(uint64(n))
	}
	if n := o.Status.Operator.FreeBytes; n != nil {
		text += ", " + inspect.Size(*n) + " free on its disk"
	}
	return text
}

// A pauseControl has the data of the button that pauses or resumes work.
type pauseControl struct {
	// Kind is "all", "queue", "module" or "hook". Name is empty if Kind is "all".
	Kind, Name string
	// Paused is set if the work is paused. Reason names the person who paused the work, and their reason.
	Paused bool
	Reason string
}

// What names the work.
func (c pauseControl) What() string {
	if c.Kind == "all" {
		return "all work"
	}
	return c.Kind + " " + c.Name
}

// Command returns the command that has the same effect as the button.
func (c pauseControl) Command() []string {
	verb := "pause"
	if c.Paused {
		verb = "resume"
	}
	args := command(verb, c.Kind, c.Name)
	if !c.Paused {
		args = append(args, "--reason", "TEXT")
	}
	return args
}

// pauseOf returns the pause button for work of this kind and name. The button resumes the work if the argument problems
// contains the problem that reports its pause.
func pauseOf(problems []inspect.Problem, kind, name string) pauseControl {
	c := pauseControl{Kind: kind, Name: name}
	resume := command("resume", kind, name)
	for i := range problems {
		if p := &problems[i]; p.Kind == inspect.KindPaused && slices.Equal(p.Command, resume) {
			c.Paused, c.Reason = true, p.Error
		}
	}
	return c
}
