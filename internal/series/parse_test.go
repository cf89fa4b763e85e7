package series_test

import (
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"

	"addon-operator/internal/series"
)

func TestOperationsAreReadInWhateverShapeTheyAreWritten(t *testing.T) {
	t.Parallel()
	labels := map[string]string{"a": "b"}
	for _, test := range []struct {
		claim, text string
		want        []series.Op
	}{
		{"nothing", "", nil},
		{"white space", " \n\t\n", nil},
		{"lines", `{"name":"x","action":"add","value":1,"labels":{"a":"b"}}` + "\n" + `{"name":"y","action":"set","value":-2.5}` + "\n", []series.Op{
			{Action: series.Add, Name: "x", Value: 1, Labels: labels}, {Action: series.Set, Name: "y", Value: -2.5},
		}},
		{"no separators", `{"name":"x","add":1}{"name":"y","set":0}`, []series.Op{
			{Action: series.Add, Name: "x", Value: 1}, {Action: series.Set, Name: "y"},
		}},
		{"pretty-printed", "{\n  \"name\": \"x\",\n  \"add\": 1\n}\n{\n  \"name\": \"y\",\n\n  \"set\": 2\n}", []series.Op{
			{Action: series.Add, Name: "x", Value: 1}, {Action: series.Set, Name: "y", Value: 2},
		}},
		{"expire first", `{"group":"g","action":"expire"}{"group":"g","name":"x","set":1}`, []series.Op{
			{Action: series.Expire, Group: "g"}, {Action: series.Set, Name: "x", Group: "g", Value: 1},
		}},
		{"expire with what it does not need", `{"group":"g","action":"expire","name":"x","value":1}`, []series.Op{{Action: series.Expire, Group: "g"}}},
		{"prefix once", `{"name":"{PREFIX}x_{PREFIX}","set":1}`, []series.Op{{Action: series.Set, Name: "p_x__PREFIX_", Value: 1}}},
		{"prefix", `{"name":"{PREFIX}x","set":1}`, []series.Op{{Action: series.Set, Name: "p_x", Value: 1}}},
		{"shortcut before action and value", `{"name":"x","action":"add","value":7,"set":3}`, []series.Op{{Action: series.Set, Name: "x", Value: 3}}},
		{"nulls are absent", `{"name":"x","add":null,"set":1,"labels":null,"buckets":null,"group":null}`, []series.Op{{Action: series.Set, Name: "x", Value: 1}}},
		{"fields nobody knows", `{"name":"x","set":1,"help":"what it is"}`, []series.Op{{Action: series.Set, Name: "x", Value: 1}}},
		{"histogram", `{"name":"x","action":"observe","value":3,"buckets":[1,2.5,10]}`, []series.Op{
			{Action: series.Observe, Name: "x", Value: 3, Buckets: []float64{1, 2.5, 10}},
		}},
		{"histogram with no bounds", `{"name":"x","action":"observe","value":3,"buckets":[]}`, []series.Op{
			{Action: series.Observe, Name: "x", Value: 3, Buckets: prometheus.DefBuckets},
		}},
		{"names with other characters", `{"name":"1a-b.c:é","set":1,"labels":{"app.kubernetes.io/name":"web","2x":"y","a:b":"c"}}`, []series.Op{
			{Action: series.Set, Name: "_a_b_c:_", Value: 1, Labels: map[string]string{"app_kubernetes_io_name": "web", "_x": "y", "a_b": "c"}},
		}},
		{"buckets of what has none", `{"name":"x","set":1,"buckets":[3,2,1]}`, []series.Op{{Action: series.Set, Name: "x", Value: 1}}},
	} {
		got, err := series.Parse([]byte(test.text), "p_")
		if d := cmp.Diff(test.want, got); err != nil || d != "" {
			t.Errorf("%s: %v (-want +got):\n%s", test.claim, err, d)
		}
	}
}

func TestABadOperationIsNamedWithItsField(t *testing.T) {
	t.Parallel()
	good := `{"name":"good","add":1} `
	for text, want := range map[string]string{
		`{"name":"x","add":1,"set":2}`:                                                `metric operation 2: ("x") fields "add" and "set": only one of them is allowed`,
		`{"name":"x","action":"inc","value":1}`:                                       `("x") field "action": is "inc"; it can be add, set, observe, and with a group expire`,
		`{"name":"x","value":1}`:                                                      `field "action": is missing`,
		`{}`:                                                                          `metric operation 2: field "action": is missing`,
		`{"action":"set","value":1}`:                                                  `field "name": is missing`,
		`{"name":"x","action":"set"}`:                                                 `field "value": is missing`,
		`{"name":"x","action":"add"}`:                                                 `field "value": is missing`,
		`{"name":"x","action":"observe","buckets":[1]}`:                               `field "value": is missing`,
		`{"name":"x","action":"observe","value":1}`:                                   `field "buckets": is missing`,
		`{"name":"x","action":"observe","value":1,"buckets":[1,1]}`:                   `field "buckets": 1 follows 1, and bounds must increase`,
		`{"name":"x","action":"observe","value":1,"buckets":[1,"2"]}`:                 `field "buckets": is a string, but must be a number`,
		`{"name":"x","action":"observe","value":1,"buckets":1}`:                       `field "buckets": is a number, but must be a list of numbers`,
		`{"name":"x","action":"expire"}`:                                              `field "group": is needed to expire`,
		`{"name":"x","set":1,"labels":{"a.b":"c","a_b":"d"}}`:                         `field "labels": several labels have the name "a_b", in which "_" replaces other characters`,
		`{"name":"x","set":1,"labels":{"":"c"}}`:                                      `field "labels": a label has no name`,
		`{"name":"x","set":1,"labels":{"..a":"c"}}`:                                   `field "labels": "__a" begins with "__"`,
		`{"name":"x","set":1,"labels":{"__a":"c"}}`:                                   `field "labels": "__a" begins with "__"`,
		`{"name":"x","set":1,"labels":{"a":1}}`:                                       `("x") field "labels": a value is a number, but must be a string: put it in quotes`,
		`{"name":"x","set":1,"labels":{"a":true}}`:                                    `field "labels": a value is a bool, but must be a string: put it in quotes`,
		`{"name":"x","set":1,"labels":["a"]}`:                                         `field "labels": is a array, but must be an object of strings`,
		`{"name":"x","action":"observe","value":1,"buckets":[1],"labels":{"le":"1"}}`: `field "labels": "le" is the label of a histogram's buckets`,
		`{"name":"x","set":"1"}`:                                                      `field "set": is a string, but must be a number`,
		`{"name":"x","add":-1}`:                                                       `field "value": is -1, and a counter only grows; use action set`,
		`{"name":"x","set":1e400}`:                                                    `field "set": number 1e400 is too large`,
		`{"name":"x","set":NaN}`:                                                      `metric operation 2 is not valid JSON near byte `,
		`{"name":7,"set":1}`:                                                          `field "name": is a number, but must be a string`,
		`{"name":"x","set":1`:                                                         `metric operation 2 ends in the middle`,
		`[{"name":"x","set":1}]`:                                                      `metric operation 2: is a JSON array, not an object; write one object after another`,
		`null`:                                                                        `is a JSON null, not an object`,
		`x 1`:                                                                         `metric operation 2 is not valid JSON near byte `,
		`{"name":"x","set":1,"labels":{"a":"` + strings.Repeat("v", 5000) + `"}}`: `field "labels": the value of "a" has 5000 bytes, more than the limit of 4096`,
		`{"name":"` + strings.Repeat("n", 300) + `","set":1}`:                     `field "name": has 300 bytes, more than the limit of 256`,
		`{"group":"` + strings.Repeat("n", 300) + `","action":"expire"}`:          `field "group": has 300 bytes, more than the limit of 256`,
	} {
		ops, err := series.Parse([]byte(good+text), "")
		if err == nil || !strings.Contains(err.Error(), want) || ops != nil {
			t.Errorf("%.80s: %v, %v; want %s", text, ops, err, want)
		}
	}
}

func TestAFileHasBounds(t *testing.T) {
	t.Parallel()
	for what, text := range map[string]string{
		"more than 20000 metric operations": strings.Repeat(`{"name":"x","add":1}`, 20_001),
		"more than the limit of 4 MiB":      strings.Repeat(" ", 4<<20+1),
		"more than the limit of 64":         `{"name":"x","set":1,"labels":{` + strings.TrimSuffix(manyLabels(65), ",") + `}}`,
		"more than the limit of 200":        `{"name":"x","action":"observe","value":1,"buckets":[` + strings.TrimSuffix(strings.Repeat("1,", 201), ",") + `]}`,
	} {
		if _, err := series.Parse([]byte(text), ""); err == nil || !strings.Contains(err.Error(), what) {
			t.Errorf("%v; want %s", err, what)
		}
	}
}

func manyLabels(n int) string {
	var all strings.Builder
	for i := range n {
		all.WriteString(`"l` + strings.Repeat("x", i) + `":"v",`)
	}
	return all.String()
}

// isPart reports whether the name of op may collide with a name that Prometheus derives from the name of a histogram,
// by adding _bucket, _count or _sum. The operator ignores an operation whose name collides with the name of another
// metric.
func isPart(snapshot series.Snapshot, op series.Op) bool {
	for _, suffix := range []string{"_bucket", "_count", "_sum"} {
		stem, isSuffixed := strings.CutSuffix(op.Name, suffix)
		if _, known := snapshot.Families[stem]; isSuffixed && known {
			return true
		}
		if _, known := snapshot.Families[op.Name+suffix]; known {
			return true
		}
	}
	return false
}

// FuzzParse checks that for any text, Parse returns either an error or operations that can be applied, served and
// stored.
func FuzzParse(f *testing.F) {
	for _, text := range []string{
		`{"name":"x","action":"add","value":1,"labels":{"a":"b"}}{"group":"g","action":"expire"}`,
		`{"name":"{PREFIX}x","set":33,"group":"g"}` + "\n\n" + `{"name":"h","action":"observe","value":42,"buckets":[1,2,5,10,20,50]}`,
		`{"name":"x","add":1e308}{"name":"x","add":1e308}`, `{"name":"h","action":"observe","value":-1e308,"buckets":[]}`,
		`{"name":"h","action":"observe","value":1,"buckets":[1]}{"name":"h_sum","set":1}{"name":"h_count","set":1}`,
		`{"name":"x","set":1,"labels":{"a":"\u0065rror"}}`, `{"name":"x","action":"` + strings.Repeat("\x7f", 1000) + `"}`,
		`[1]`, `{"labels":{"":""}}`, `{"name":"x","set":1,"labels":{"hook":"y","a":""}}`, "\x00", `{"name":"x","set":1e999}`,
	} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		ops, err := series.Parse(text, "p_")
		if err != nil {
			if ops != nil || len(err.Error()) > 2000 {
				t.Errorf("%d operations and the error %v", len(ops), err)
			}
			return
		}
		kept, err := json.Marshal(ops)
		if err != nil {
			t.Fatal(err)
		}
		var again []series.Op
		if err := json.Unmarshal(kept, &again); err != nil {
			t.Fatal(err)
		}
		snapshot := series.Snapshot{Families: map[string]series.Family{}}
		owner := series.Owner{Module: "m", Hook: "h"}
		shard := series.NewShard(owner)
		for i, op := range ops {
			if op.Action == series.Expire || isPart(snapshot, op) {
				continue
			}
			if math.IsNaN(op.Value) || math.IsInf(op.Value, 0) {
				t.Errorf("value %v", op.Value)
			}
			if _, known := snapshot.Families[op.Name]; !known {
				snapshot.Families[op.Name] = series.FamilyOf(op)
			}
			if f := snapshot.Families[op.Name]; f.Type == op.Type() {
				shard.Apply(owner.Entry(again[i]), f)
			}
		}
		snapshot.Shards = []*series.Shard{shard}
		scrape(t, snapshot) // scrape fails the test if the page has an error status
	})
}

func TestExamplesOfTheReferenceAreValid(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile(filepath.Join("..", "..", "docs", "reference", "metrics.md"))
	if err != nil {
		t.Fatal(err)
	}
	valid := 0
	for line := range strings.Lines(string(page)) {
		if row := strings.Split(line, "|"); len(row) > 3 && strings.HasPrefix(row[1], " `{") {
			_, err := series.Parse([]byte(strings.Trim(row[1], " `")), "")
			if err == nil || !strings.Contains(row[2], err.Error()) {
				t.Errorf("%s: %v", line, err)
			}
			continue
		}
		line = strings.TrimSpace(strings.TrimPrefix(strings.TrimSpace(line), "echo "))
		if !strings.HasPrefix(strings.Trim(line, "'"), `{"`) {
			continue
		}
		text, _, _ := strings.Cut(strings.TrimPrefix(line, "'"), "'")
		if _, err := series.Parse([]byte(text), ""); err != nil {
			t.Errorf("%s: %v", line, err)
		}
		valid++
	}
	if valid < 4 {
		t.Errorf("%d examples were found", valid)
	}
}
