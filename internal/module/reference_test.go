package module_test

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"addon-operator/internal/values"
)

// nameRow matches a row in the table of names on the reference page.
var nameRow = regexp.MustCompile("(?m)^\\| `([^`]+)` \\| (?:`([^`]+)`)? *\\| (?:refused: (?:use `([^`]+)`|rename it))? *\\|$")

func TestReferenceSaysWhichNamesAreRefused(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../docs/reference/modules.md")
	if err != nil {
		t.Fatal(err)
	}
	rows := nameRow.FindAllStringSubmatch(string(page), -1)
	if len(rows) < 15 {
		t.Fatalf("the page has %d rows of names", len(rows))
	}
	for _, row := range rows {
		name, key, instead := row[1], row[2], row[3]
		err := values.CheckName(name)
		switch {
		case key != "" && (err != nil || values.Camel(name) != key):
			t.Errorf("%s: the page says its key is %s, it is %s (%v)", name, key, values.Camel(name), err)
		case key == "" && err == nil:
			t.Errorf("%s: the page says it is refused", name)
		case instead != "" && !strings.Contains(err.Error(), `"`+instead+`"`):
			t.Errorf("%s: the page says to use %s, the error %v", name, instead, err)
		}
	}
}
