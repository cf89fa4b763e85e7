package webui

import (
	"strconv"
	"strings"
)

// links are the paths of views, for templates.
type links struct{}

// RunURL returns the path of a run.
func (links) RunURL(run uint64) string { return at(nil, "run", strconv.FormatUint(run, 10)) }

// ModuleURL returns the path of a module.
func (links) ModuleURL(module string) string { return at(nil, "module", module) }

// QueueURL returns the path of a queue.
func (links) QueueURL(queue string) string { return nested("queue", queue) }

// ReleaseURL returns the path of the release of a module.
func (links) ReleaseURL(module string) string { return at(nil, "release", module) }

// ValuesURL returns the path of the values of a module.
func (links) ValuesURL(module string) string { return at(nil, "values", module) }

// TimelineURL returns the path of the timeline of a subject.
func (links) TimelineURL(subject string) string {
	return at(map[string]string{"subject": subject}, "timeline")
}

// LogsURL returns the path of the output of a subject.
func (links) LogsURL(subject string) string {
	return at(map[string]string{"subject": subject}, "logs")
}

// WhyURL returns the path of the explanation of a subject.
func (links) WhyURL(subject string) string { return at(map[string]string{"subject": subject}, "why") }

// HookURL returns the path of a hook, which is a global one if module is empty.
func (links) HookURL(module, hook string) string {
	return nested("hook", strings.TrimPrefix(module+"/"+hook, "/"))
}

// TaskURL returns the path of a task.
func (links) TaskURL(task any) string {
	if s, ok := task.(interface{ String() string }); ok {
		return at(nil, "task", s.String())
	}
	return at(nil, "task", task.(string)) //nolint:forcetypeassert // templates give an ID or its text
}

// CommandURL returns the path of the view that shows what the arguments of a command print, empty if there is none.
func (links) CommandURL(args []string) string {
	if len(args) == 0 {
		return ""
	}
	last := args[len(args)-1]
	switch strings.Join(args[:min(len(args), 2)], " ") {
	case "workflow inspect":
		return at(nil, "run", last)
	case "workflow list":
		return "/runs"
	case "queue list":
		return "/queues"
	case "queue main":
		return "/queue/main"
	case "queue show":
		return nested("queue", last)
	case "module list":
		return "/modules"
	case "hook list":
		return "/hooks"
	}
	subject := ""
	if len(args) > 1 && !strings.HasPrefix(args[1], "-") {
		subject = args[1]
	}
	switch args[0] {
	case "status", "diagnose":
		return "/"
	case "timeline", "logs", "why":
		return at(map[string]string{"subject": subject}, args[0])
	case "task":
		if len(args) > 2 {
			return at(nil, "task", args[2])
		}
	}
	return ""
}
