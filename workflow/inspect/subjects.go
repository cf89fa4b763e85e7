package inspect

import (
	"encoding/json"
	"iter"

	"addon-operator/store"
	"addon-operator/workflow/graph"
)

// subjects are the subjects of many records, each decoded once.
type subjects struct {
	list    []recordSubject
	numbers map[string]int32 // in the list, by the text of the subject
}

// A recordSubject is the subject of records.
type recordSubject struct {
	subject graph.Subject
	unknown bool // the subject is not known without decoding the record
}

// number returns the number of the subject with that text in the list, to which it adds a new subject.
func (s *subjects) number(text []byte, known bool) int32 {
	if !known {
		text = []byte("unknown")
	}
	n, ok := s.numbers[string(text)]
	if !ok {
		n = int32(len(s.list)) //nolint:gosec // there are fewer subjects than records, which a store cannot have so many of
		added := recordSubject{}
		added.unknown = len(text) > 0 && json.Unmarshal(text, &added.subject) != nil
		s.list, s.numbers[string(text)] = append(s.list, added), n
	}
	return n
}

// mayBe returns, for each subject by its number, whether it is wanted or not known.
func (s *subjects) mayBe(wanted func(graph.Subject) bool) []bool {
	mayBe := make([]bool, len(s.list))
	for i := range s.list {
		mayBe[i] = s.list[i].unknown || wanted(s.list[i].subject)
	}
	return mayBe
}

// A subjectSearch searches queues for their first tasks about a wanted subject.
type subjectSearch struct {
	scan   *scan
	wanted func(graph.Subject) bool
	// tells returns whether a task may be about a wanted subject, from its text.
	tells func(text []byte) bool
	mayBe []bool // whether the subject with that number may be wanted
}

// firstAbout yields the first task about a wanted subject of each queue. The text of a task that was not counted tells whether it may
// be about one.
func firstAbout(s *scan, wanted func(graph.Subject) bool, tells func(text []byte) bool) iter.Seq2[*store.Task, error] {
	return func(yield func(*store.Task, error) bool) {
		search := &subjectSearch{scan: s, wanted: wanted, tells: tells, mayBe: s.subjects.mayBe(wanted)}
		for _, name := range s.names {
			q := s.queues[name]
			t, err := search.counted(q)
			if t == nil && err == nil && q.more {
				t, err = search.uncounted(q)
			}
			if t == nil && err == nil {
				continue
			}
			if !yield(t, err) {
				return
			}
		}
	}
}

// counted returns the first counted task of q about a wanted subject; nil if there is none.
func (search *subjectSearch) counted(q *queue) (*store.Task, error) {
	for i := range q.entries {
		if !search.mayBe[q.entries[i].subject] {
			continue
		}
		if t, err := search.load(q.pos(i).Key()); t != nil || err != nil {
			return t, err
		}
	}
	return nil, nil
}

// uncounted returns the first task of q behind the counted ones that is about a wanted subject; nil if there is none.
func (search *subjectSearch) uncounted(q *queue) (*store.Task, error) {
	i := 0
	for k, v := range search.scan.tx.Skim(store.QueueKey(q.name)) {
		if i++; i <= q.tasks() || !search.tells(v) {
			continue
		}
		if t, err := search.load(k); t != nil || err != nil {
			return t, err
		}
	}
	return nil, nil
}

// load returns the task under k if it is about a wanted subject; nil otherwise.
func (search *subjectSearch) load(k store.Key) (*store.Task, error) {
	t, ok, err := store.LoadAt(search.scan.tx, k)
	if err := search.scan.unreadable.pass(err); err != nil {
		return nil, err
	}
	if !ok || !search.wanted(t.Subject) {
		return nil, nil
	}
	return t, nil
}
