package inspect

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"addon-operator/store"
	"addon-operator/workflow/graph"
)

// names are names of modules, hooks, bindings and queues, some with characters that JSON escapes.
var names = rapid.SampledFrom([]string{"", "web", "hooks/a.sh", `a"b`, `a\`, `\"`, "{}", `,"` + runField + `":9`, `","state":"`, "x}", "}x", `:"}`, "a:", "ä\n"})

func someSubject(t *rapid.T) graph.Subject {
	return graph.Subject{Module: names.Draw(t, "module"), Hook: names.Draw(t, "hook"), Binding: names.Draw(t, "binding")}
}

func encoded(t *rapid.T, v any) []byte {
	text, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// TestTextOfATaskTellsItsRunAndWhetherItFailed uses tasks with random fields. The functions that read only the text of
// a task must return the values of its fields.
func TestTextOfATaskTellsItsRunAndWhetherItFailed(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		flip := func(name string) bool { return rapid.Bool().Draw(t, name) }
		at := time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)
		task := store.Task{
			ID: store.ID{Epoch: 1, N: rapid.Uint64().Draw(t, "n")}, Graph: "g", Node: names.Draw(t, "node"), Subject: someSubject(t),
			Run: rapid.Uint64().Draw(t, "run"), AllowFailure: flip("allow failure"), Lane: names.Draw(t, "lane"), Prepared: flip("prepared"), Journal: flip("journal"),
		}
		if flip("no subject") {
			task.Subject = graph.Subject{}
		}
		if flip("payload") {
			task.Payload = encoded(t, map[string]any{runField: 5, "object": map[string]string{"name": names.Draw(t, "payload name")}})
		}
		if flip("object") {
			task.Object = &store.ObjectRef{Event: "Added", Name: names.Draw(t, "object name")}
		}
		if flip("failed") {
			task.Failed = &store.Failure{Node: "n", Subject: someSubject(t), Count: 1, Error: names.Draw(t, "error"), At: at}
			if flip("since") {
				task.Failed.Since = at
				before := *task.Failed
				task.Failed.Before = &before
			}
		}
		if flip("due") {
			task.Due = at.Add(rapid.SampledFrom([]time.Duration{0, time.Nanosecond, time.Hour}).Draw(t, "due in"))
		}
		if flip("claim") {
			task.Claim = &store.Claim{Epoch: 1, Again: flip("again"), Excused: flip("excused")}
			if flip("claim since") {
				task.Claim.Since = at
			}
		}
		text := encoded(t, task)
		if got := runOf(text); got != task.Run {
			t.Errorf("the run is %d, want %d: %s", got, task.Run, text)
		}
		if subject, rest, known := subjectOf(text); known {
			if got, ok := leadingRun(rest); !ok || got != task.Run || len(subject) > 0 && string(subject) != string(encoded(t, task.Subject)) || len(subject) == 0 && task.Subject != (graph.Subject{}) {
				t.Errorf("the subject is %s, and the run %d: %s", subject, got, text)
			}
		}
		if task.Failed != nil && !hasFailed(text) {
			t.Errorf("hasFailed is false for a failed task: %s", text)
		}
		if named := string(aboutTask(text)); !strings.Contains(named, task.ID.String()) || strings.Contains(named, fieldOf("AllowFailure")) ||
			task.Subject != (graph.Subject{}) && !strings.Contains(named, string(encoded(t, task.Subject))) {
			t.Errorf("%s names %s", text, named)
		}
	})
}

func TestTextOfALineTellsWhatItIsAbout(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		r := store.Record{
			Run: rapid.Uint64().Draw(t, "run"), Task: store.ID{Epoch: 1, N: 2}, Node: names.Draw(t, "node"), Subject: someSubject(t),
			Queue: names.Draw(t, "queue"), State: store.Done, Output: "the output",
		}
		text := encoded(t, r)
		named := string(about(text))
		if !strings.HasSuffix(named, `"queue":`+string(encoded(t, r.Queue))+",") || strings.Contains(named, r.Output) {
			t.Errorf("%s is about %s", text, named)
		}
		want := ""
		if r.Subject != (graph.Subject{}) {
			want = string(encoded(t, r.Subject))
		}
		if subject, _, known := subjectOf(text); known && string(subject) != want {
			t.Errorf("the subject of %s is %s", text, subject)
		}
	})
}

func TestTextThatIsNoRecordIsSearchedAsAWhole(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"", "{", `{"`, `{"a`, `{"a"`, `{"a":`, `{"a":1`, `{"a":1,`, `{"a":{`, `{"a":{"b"`, `{"a":{"b":"c"`, `{"a":[1],"b":2}`, "\x01garbage"} {
		if got := string(about([]byte(text))); got != text {
			t.Errorf("%q is about %q", text, got)
		}
		if run := runOf([]byte(text)); run != 0 {
			t.Errorf("%q has run %d", text, run)
		}
		if subject, _, known := subjectOf([]byte(text)); known {
			t.Errorf("%q has the subject %q", text, subject)
		}
	}
}
