package webui

import (
	"strconv"
	"strings"
)

// links has methods with which templates get the paths of views.
type links struct{}

// RunURL returns the path of the view of a run.
func (links) RunURL(run uint64) string { return at(nil, "run", strconv.FormatUint(run, 10)) }

// ModuleURL returns the path of the view of a module.
func (links) ModuleURL(module string) string { return at(nil, "module", module) }

// QueueURL returns the path of the view of a queue.
func (links) QueueURL(queue string) string { return nested("queue", queue) }

// ReleaseURL returns the path of the view of a module's release.
func (links) ReleaseURL(module string) string { return at(nil, "release", module) }

// ValuesURL returns the path of the view of a module's values.
func (links) ValuesURL(module string) string { return at(nil, "values", module) }

// TimelineURL returns the path of the view of the timeline of a subject.
func (links) TimelineURL(subject string) string {
	return at(map[string]string{"subject": subject}, "timeline")
}

// LogsURL returns the path of the view that shows the output of a subject's attempts.
func (links) LogsURL(subject string) string {
	return at(map[string]string{"subject": subject}, "logs")
}

// WhyURL returns the path of the view that explains the state of a subject.
func (links) WhyURL(subject string) string { return at(map[string]string{"subject": subject}, "why") }

// HookURL returns the path of the view of a hook. module is empty for a global hook.
func (links) HookURL(module, hook string) string {
	return nested("hook", strings.TrimPrefix(module+"/"+hook, "/"))
}

// TaskURL returns the path of the view of a task.
func (links) TaskURL(task any) string {
	if s, ok := task.(interface{ String() string }); ok {
		return at(nil, "task", s.String())
	}
	return at(nil, "task", task.(string)) //nolint:forcetypeassert // a template passes a store.ID, or the same ID as a string
}

// A viewLink has the path and the name of a view.
type viewLink struct{ URL, Text string }

// commandView returns a link to the view that shows the output of the command, or the task that the command changes.
// The link is empty if no view does this.
func commandView(args []string) viewLink {
	if len(args) == 0 {
		return viewLink{}
	}
	last := args[len(args)-1]
	switch strings.Join(args[:min(len(args), 2)], " ") {
	case "workflow inspect":
		return viewLink{at(nil, "run", last), "run " + last}
	case "workflow list":
		return viewLink{"/runs", "runs"}
	case "queue list":
		return viewLink{"/queues", "queues"}
	case "queue main":
		return viewLink{"/queue/main", "queue main"}
	case "queue show":
		return viewLink{nested("queue", last), "queue " + last}
	case "module list":
		return viewLink{"/modules", "modules"}
	case "hook list":
		return viewLink{"/hooks", "hooks"}
	}
	subject := ""
	if len(args) > 1 && !strings.HasPrefix(args[1], "-") {
		subject = args[1]
	}
	switch args[0] {
	case "status", "diagnose":
		return viewLink{"/", "overview"}
	case "timeline":
		return viewLink{links{}.TimelineURL(subject), strings.TrimSpace("timeline " + subject)}
	case "logs":
		return viewLink{links{}.LogsURL(subject), strings.TrimSpace("output " + subject)}
	case "why":
		return viewLink{links{}.WhyURL(subject), strings.TrimSpace("why " + subject)}
	case "task":
		if len(args) > 2 {
			return viewLink{at(nil, "task", args[2]), "task " + args[2]}
		}
	}
	return viewLink{}
}
