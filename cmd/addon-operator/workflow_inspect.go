package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"strconv"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"
	"sigs.k8s.io/yaml"

	"addon-operator/workflow/inspect"
)

// newWorkflowInspect returns the command "workflow inspect".
func newWorkflowInspect(from *sourceFlags) *cobra.Command {
	v := &inspectVerb{from: from}
	cmd := &cobra.Command{
		Use:   "inspect [RUN]",
		Short: "Show the steps of a run, its failures, and what to do",
		Long: "Show the steps of a run, its failures, and what to do.\n\n" +
			"Without a number, the command shows the newest run that needs attention, else the current run of queue main,\n" +
			"else the newest unfinished run, else the last converge or a newer run with several steps.",
		Args:              args(cobra.MaximumNArgs(1)),
		ValidArgsFunction: from.complete(listRuns),
	}
	v.output.declare(cmd, "text", "wide", "json", "yaml")
	v.paint.declare(cmd)
	f := cmd.Flags()
	f.BoolVarP(&v.watch, "watch", "w", false, "show the run again after each change")
	f.BoolVarP(&v.all, "all", "a", false, "show all steps")
	f.BoolVar(&v.code, "exit-code", false, "exit with "+strconv.Itoa(exitAttention)+" if something needs attention")
	cmd.RunE = func(cmd *cobra.Command, argv []string) error {
		if err := v.output.check(); err != nil {
			return err
		}
		query, err := runQuery(argv)
		if err != nil {
			return err
		}
		if v.watch {
			return v.follow(cmd, query)
		}
		return v.once(cmd, query)
	}
	return cmd
}

// inspectVerb has the values of the flags of the command "workflow inspect".
type inspectVerb struct {
	from       *sourceFlags
	output     output
	paint      paint
	watch, all bool
	code       bool
}

// runQuery returns the query for the run whose number is in argv. If argv is empty, the query names no run.
func runQuery(argv []string) (url.Values, error) {
	query := url.Values{}
	if len(argv) == 0 {
		return query, nil
	}
	if _, err := strconv.ParseUint(argv[0], 10, 64); err != nil {
		return nil, &codedError{exitUsage, fmt.Errorf("%q is not the number of a run; addon-operator workflow list shows the numbers", argv[0])}
	}
	query.Set("run", argv[0])
	return query, nil
}

// once prints the current state of the run.
func (v *inspectVerb) once(cmd *cobra.Command, query url.Values) error {
	return v.from.with(cmd, func(ctx context.Context, s *source) error {
		run, err := getRun(ctx, s, query)
		if err != nil {
			return err
		}
		if err := v.print(cmd, run, v.layout(cmd, run.At)); err != nil {
			return err
		}
		return v.exit(run)
	})
}

// getRun requests the state of a run from the source s.
func getRun(ctx context.Context, s *source, query url.Values) (*inspect.Run, error) {
	var body bytes.Buffer
	if err := s.get(ctx, "/workflow/inspect.json", query, &body); err != nil {
		return nil, err
	}
	run := new(inspect.Run)
	if err := json.Unmarshal(body.Bytes(), run); err != nil {
		return nil, fmt.Errorf("%s: the answer cannot be read: %w", s.about, err)
	}
	return run, nil
}

// exit returns an error with the exit code exitAttention if --exit-code is set and something needs
// attention; otherwise nil.
func (v *inspectVerb) exit(run *inspect.Run) error {
	if !v.code || !run.Attention() {
		return nil
	}
	return &codedError{exitAttention, fmt.Errorf("attention: %d problem(s), see above", len(run.Problems))}
}

func (v *inspectVerb) layout(cmd *cobra.Command, now time.Time) inspect.Layout {
	l := v.paint.layout(cmd.OutOrStdout(), v.from.zone())
	l.Now, l.All, l.Wide = now, v.all, v.output.format == "wide"
	// Commands in the output begin with the name with which the user called the program.
	l.Program, l.More = os.Args[0], v.from.repeated()
	return l
}

// print writes the run to stdout, in the format of the flag -o.
func (v *inspectVerb) print(cmd *cobra.Command, run *inspect.Run, l inspect.Layout) error {
	var body []byte
	var err error
	switch v.output.format {
	case "json":
		if v.watch {
			body, err = json.Marshal(run)
		} else {
			body, err = json.MarshalIndent(run, "", "  ")
		}
		body = append(body, '\n')
	case "yaml":
		if body, err = yaml.Marshal(run); v.watch {
			body = append([]byte("---\n"), body...)
		}
	default:
		body = []byte(inspect.Text(run, l))
	}
	if err == nil {
		_, err = cmd.OutOrStdout().Write(body)
	}
	return err
}

// follow prints the run again after each change. Text on a terminal replaces the previous output. While the
// run is open, this text is also replaced every second, so that the durations are current. In all other
// cases, follow appends to the output.
func (v *inspectVerb) follow(cmd *cobra.Command, query url.Values) error {
	return v.from.with(cmd, func(ctx context.Context, s *source) error {
		ctx, stop := context.WithCancel(ctx)
		defer stop()
		snapshots, ended := s.watch(ctx, query)
		screen := v.screen(cmd)
		tick := time.NewTicker(time.Second)
		defer tick.Stop()
		var run *inspect.Run
		for {
			select {
			case next, ok := <-snapshots:
				if !ok {
					return v.end(cmd, s, run, <-ended)
				}
				run = next
			case <-tick.C:
				if screen == nil || run == nil || run.Open == 0 {
					continue
				}
			}
			if err := v.draw(cmd, run, screen); err != nil {
				return err
			}
		}
	})
}

// end returns the result of a watch that has ended. A watch ends if the user presses Ctrl-C, if the operator ends, or
// if the run that the argument RUN names ends. If no operator runs, a watch ends after one snapshot.
func (v *inspectVerb) end(cmd *cobra.Command, s *source, run *inspect.Run, err error) error {
	if cmd.Context().Err() != nil {
		return nil //nolint:nilerr // the user has ended the watch with Ctrl-C
	}
	switch {
	case err != nil:
		return err
	case run != nil && (run.Open == 0 || !s.live):
		return v.exit(run)
	default:
		return fmt.Errorf("%s has ended; its store can be read with --store FILE", s.about)
	}
}

// screen returns the terminal to which the command prints text; nil if the output is not text on a
// terminal.
func (v *inspectVerb) screen(cmd *cobra.Command) *os.File {
	if f, ok := terminal(cmd.OutOrStdout()); ok && v.output.isText() {
		return f
	}
	return nil
}

// draw replaces the previous output on the terminal screen by the current state of the run. If screen is
// nil, draw appends the state to the output.
func (v *inspectVerb) draw(cmd *cobra.Command, run *inspect.Run, screen *os.File) error {
	l := v.layout(cmd, time.Now())
	if l.Now.Before(run.At) {
		l.Now = run.At // the clock of the operator is ahead of the clock of this process
	}
	if screen == nil {
		if v.output.isText() {
			_, _ = fmt.Fprintf(cmd.OutOrStdout(), "--- %s\n", l.Stamp(run.At))
		}
		return v.print(cmd, run, l)
	}
	if _, height, err := term.GetSize(int(screen.Fd())); err == nil {
		l.Height = height - 1
	}
	_, err := screen.WriteString(inPlace(inspect.Text(run, l)))
	return err
}

// watch returns a channel that receives the current snapshot of the run, and a new one after each
// change. The second channel receives the error, or nil, after the last snapshot.
func (s *source) watch(ctx context.Context, query url.Values) (<-chan *inspect.Run, <-chan error) {
	return stream[inspect.Run](ctx, s, "/workflow/watch", query)
}

// stream returns a channel that receives the items that the route at path streams. The second
// channel receives the error, or nil, after the last item.
func stream[T any](ctx context.Context, s *source, path string, query url.Values) (<-chan *T, <-chan error) {
	items, ended := make(chan *T), make(chan error, 1)
	r, w := io.Pipe()
	go func() { w.CloseWithError(s.get(ctx, path, query, w)) }()
	go func() {
		defer close(items)
		for in := json.NewDecoder(r); ; {
			item := new(T)
			if err := in.Decode(item); err != nil {
				if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
					err = nil
				}
				ended <- err
				return
			}
			select {
			case items <- item:
			case <-ctx.Done():
				ended <- nil
				return
			}
		}
	}()
	return items, ended
}
