package sections

import (
	"strings"
	"testing"
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
