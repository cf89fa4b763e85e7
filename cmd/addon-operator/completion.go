package main

import (
	"bytes"
	"context"
	"encoding/json"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"addon-operator/cmd/addon-operator/debugapi"
	"addon-operator/workflow/inspect"
)

// completionTimeout is the time limit for one completion. The limit is short, because the user
// waits at the prompt.
const completionTimeout = time.Second

// A lister returns the possible values of an argument for shell completion, each with a description
// after a tab.
type lister func(context.Context, *source) ([]cobra.Completion, error)

// complete returns a function that completes the first argument with the values of list. If reading
// the values takes longer than completionTimeout, the function offers no values.
func (f *sourceFlags) complete(list lister) cobra.CompletionFunc {
	return func(cmd *cobra.Command, argv []string, begun string) ([]cobra.Completion, cobra.ShellCompDirective) {
		if len(argv) > 0 {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		ctx, cancel := context.WithTimeout(context.WithoutCancel(cmd.Context()), completionTimeout)
		defer cancel()
		found := make(chan []cobra.Completion, 1)
		go func() { found <- f.names(ctx, list, begun) }() // in a goroutine, because opening a store file has no timeout
		select {
		case names := <-found:
			return names, cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveKeepOrder
		case <-ctx.Done():
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
	}
}

// names returns the values of list that start with begun, the text that the user has typed. names
// returns nothing after an error, because a shell cannot show the error.
func (f *sourceFlags) names(ctx context.Context, list lister, begun string) []cobra.Completion {
	s, err := f.open(ctx)
	if err != nil {
		return nil
	}
	defer s.close() //nolint:errcheck // an error does not matter, because the source was only read
	all, err := list(ctx, s)
	if err != nil {
		return nil
	}
	var out []cobra.Completion
	for _, one := range all {
		if strings.HasPrefix(one, begun) {
			out = append(out, one)
		}
	}
	return out
}

// read requests path from s in JSON, and returns the decoded response.
func read[T any](ctx context.Context, s *source, path string, query url.Values) (data T, err error) {
	var body bytes.Buffer
	if err := s.get(ctx, path+".json", query, &body); err != nil {
		return data, err
	}
	err = json.Unmarshal(body.Bytes(), &data)
	return data, err
}

// described returns the completion of a name. Its description is the first characters of about, on
// one line.
func described(name, about string) cobra.Completion {
	const most = 80
	text := []rune(strings.Join(strings.Fields(about), " "))
	if len(text) > most {
		text = append(text[:most-1], '…')
	}
	return cobra.CompletionWithDesc(name, string(text))
}

func listModules(ctx context.Context, s *source) (names []cobra.Completion, err error) {
	list, err := read[debugapi.ModuleList](ctx, s, "/module/list", nil)
	for _, m := range list.Modules {
		names = append(names, described(m.Name, m.State))
	}
	return names, err
}

// listHooks lists the hooks of modules as MODULE/HOOK, and global hooks by their names.
func listHooks(ctx context.Context, s *source) (names []cobra.Completion, err error) {
	hooks, err := read[[]debugapi.HookLine](ctx, s, "/hook/list", nil)
	for _, h := range hooks {
		names = append(names, described(h.FullName(), strings.Join(debugapi.BindingsOf(h.Config), " ")))
	}
	return names, err
}

// listScheduledHooks lists the hooks that have a schedule.
func listScheduledHooks(ctx context.Context, s *source) (names []cobra.Completion, err error) {
	hooks, err := read[[]debugapi.HookLine](ctx, s, "/hook/list", nil)
	for _, h := range hooks {
		if len(h.Schedules) > 0 {
			names = append(names, described(h.FullName(), h.Schedules[0].Crontab))
		}
	}
	return names, err
}

func listQueues(ctx context.Context, s *source) (names []cobra.Completion, err error) {
	list, err := read[debugapi.QueueList](ctx, s, "/queue/list", url.Values{"showEmpty": {"true"}})
	for _, q := range append(list.Active, list.Empty...) {
		names = append(names, described(q.Name, q.Status))
	}
	return names, err
}

func listRuns(ctx context.Context, s *source) (names []cobra.Completion, err error) {
	runs, err := read[[]inspect.Summary](ctx, s, "/workflow/list", nil)
	for _, r := range runs {
		names = append(names, described(strconv.FormatUint(r.ID, 10), string(r.State)+", "+r.Trigger+" "+r.Subject))
	}
	return names, err
}

func listParams(ctx context.Context, s *source) (names []cobra.Completion, err error) {
	lines, err := read[[]debugapi.ParamLine](ctx, s, "/config/list", nil)
	for _, l := range lines {
		names = append(names, described(l.Name, l.About))
	}
	return names, err
}

// listTasks lists the tasks for which fit returns true, or all tasks if fit is nil.
func listTasks(fit func(*debugapi.TaskLine) bool) lister {
	return func(ctx context.Context, s *source) (names []cobra.Completion, err error) {
		list, err := read[debugapi.QueueList](ctx, s, "/queue/list", nil)
		tasks := list.Later
		for _, q := range list.Active {
			tasks = append(tasks, q.Tasks...)
		}
		for i := range tasks {
			if t := &tasks[i]; fit == nil || fit(t) {
				names = append(names, described(t.ID, t.Description))
			}
		}
		return names, err
	}
}

// listQuarantined lists the tasks in quarantine.
func listQuarantined(ctx context.Context, s *source) (names []cobra.Completion, err error) {
	run, err := read[inspect.Run](ctx, s, "/workflow/inspect", nil)
	for _, p := range run.Problems {
		if p.Kind == inspect.KindQuarantined {
			names = append(names, described(p.Task.String(), p.Node+" "+p.Subject.String()))
		}
	}
	return names, err
}

// listAll combines two listers.
func listAll(a, b lister) lister {
	return func(ctx context.Context, s *source) ([]cobra.Completion, error) {
		first, err := a(ctx, s)
		if err != nil {
			return nil, err
		}
		second, err := b(ctx, s)
		return append(first, second...), err
	}
}

func isRunning(t *debugapi.TaskLine) bool { return strings.HasPrefix(t.State, debugapi.Running) }

func hasFailed(t *debugapi.TaskLine) bool { return strings.Contains(t.Description, ":failures ") }
