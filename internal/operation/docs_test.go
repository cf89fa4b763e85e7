package operation_test

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"addon-operator/internal/operation"
)

func TestReferenceShowsWhatIsRead(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../../docs/reference/patch-operations.md")
	if err != nil {
		t.Fatal(err)
	}
	page := string(text)
	read := 0
	for _, block := range regexp.MustCompile("(?s)```(sh|yaml)\n(.*?)```").FindAllStringSubmatch(page, -1) {
		file := block[2]
		if block[1] == "sh" {
			_, file, _ = strings.Cut(file, "END\n")
			file, _, _ = strings.Cut(file, "\nEND")
		}
		operations, err := operation.Parse([]byte(file))
		if err != nil {
			t.Errorf("%v\n%s", err, file)
		}
		read += len(operations)
	}
	if read != 6 {
		t.Errorf("%d operations are shown", read)
	}

	// The page must have one row for every operation and every field, and no other rows.
	_, err = operation.Parse([]byte(`{"operation":"?"}{"operation":"Delete","kind":"a","name":"a","?":1}`))
	if err == nil {
		t.Fatal("an unknown operation is read")
	}
	for what, pattern := range map[string]string{"field": `known are (.*)`, "operation": `must be one of (.*)`} {
		names := strings.Split(regexp.MustCompile(pattern).FindStringSubmatch(err.Error())[1], ", ")
		_, table, _ := strings.Cut(page, "| "+what+" |")
		table, _, _ = strings.Cut(table, "\n\n")
		rows := regexp.MustCompile("(?m)^\\| `(\\w+)` \\|").FindAllStringSubmatch(table, -1)
		if len(rows) != len(names) {
			t.Errorf("%d rows for %d %ss", len(rows), len(names), what)
		}
		for _, name := range names {
			if !strings.Contains(table, "| `"+name+"` |") {
				t.Errorf("there is no row for the %s %s", what, name)
			}
		}
	}
}
