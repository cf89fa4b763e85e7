package sections

import (
	"strings"
	"testing"

	"addon-operator/store"
)

// TestChangesHaveNoSecrets records changes of passwords: some are values of a key that names a secret, others are
// parts of URLs. The records must not contain the passwords, but must show all other changes.
func TestChangesHaveNoSecrets(t *testing.T) {
	t.Parallel()
	c := NewChanges([]byte("key"))
	if err := c.Add("web",
		map[string]any{"password": "hunter2", "dsn": "postgres://web:hunter2@db/web", "hosts": []any{"https://a:hunter2@host"}, "users": []any{map[string]any{"name": "a", "password": "hunter2"}}, "size": 1},
		map[string]any{"password": "hunter3", "dsn": "postgres://web:hunter3@db2/web", "hosts": []any{"https://a:hunter3@host2"}, "users": []any{map[string]any{"name": "a", "password": "hunter3"}}, "size": 2},
	); err != nil {
		t.Fatal(err)
	}
	var all strings.Builder
	for _, change := range c.Recorded().List {
		all.WriteString(change.Path + " " + change.Old + " " + change.New + "\n")
	}
	for _, change := range c.Recorded().List {
		if change.Path == "/web/users" && change.Old == change.New {
			t.Errorf("the change of a password in a list is not visible: %s", change.New)
		}
	}
	if text := all.String(); strings.Contains(text, "hunter") || !strings.Contains(text, "@db2/web") || !strings.Contains(text, "/web/size 1 2") {
		t.Errorf("the changes are\n%s", text)
	}
}

// TestDifferentValuesHaveDifferentTexts records changes that the texts of the values do not show: behind the end of a
// truncated text, and in a masked part.
func TestDifferentValuesHaveDifferentTexts(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("namespace ", 40)
	for name, test := range map[string]struct{ before, after any }{
		"the end of a long text":      {long + "a", long + "b"},
		"the end of a long list":      {strings.Fields(long), append(strings.Fields(long), "one-more")},
		"a password in a URL":         {"postgres://ann:hunter1@db/x", "postgres://ann:hunter2@db/x"},
		"a password of a long list":   {[]any{long, map[string]any{"password": "hunter1"}}, []any{long, map[string]any{"password": "hunter2"}}},
		"a password and nothing else": {map[string]any{"password": "hunter1"}, map[string]any{"password": "hunter2"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := NewChanges([]byte("key"))
			if err := c.Add("web", map[string]any{"a": test.before}, map[string]any{"a": test.after}); err != nil {
				t.Fatal(err)
			}
			recorded := c.Recorded()
			if recorded == nil || len(recorded.List) != 1 {
				t.Fatalf("recorded %+v", recorded)
			}
			change := recorded.List[0]
			back := store.ValueChange{Path: change.Path, Old: change.Old, New: change.Old}
			if change.Unchanged() || change.Old == change.New || !back.Unchanged() {
				t.Errorf("the change is %+v", change)
			}
		})
	}
}
