package inspect

import (
	"encoding/json"
	"iter"

	"addon-operator/store"
	"addon-operator/workflow/graph"
)

// subjects has the distinct subjects of many records. Each subject is decoded once.
type subjects struct {
	list    []recordSubject
	numbers map[string]int32 // index of a subject in list, by the JSON text of the subject
}

// A recordSubject is the subject of one or more records.
type recordSubject struct {
	subject graph.Subject
	unknown bool // set if only the whole records show their subjects
}

// number returns the index in the list of the subject with the given JSON text. number adds the subject if it is new.
// If known is false, number returns the index of the entry that all unknown subjects share.
func (s *subjects) number(text []byte, known bool) int32 {
	if !known {
		text = []byte("unknown")
	}
	n, ok := s.numbers[string(text)]
	if !ok {
		n = int32(len(s.list)) //nolint:gosec // a store has fewer than 2^31 records, and so fewer subjects
		added := recordSubject{}
		added.unknown = len(text) > 0 && json.Unmarshal(text, &added.subject) != nil
		s.list, s.numbers[string(text)] = append(s.list, added), n
	}
	return n
}

// mayBe returns, by the index of a subject, whether the subject is wanted or unknown.
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
	// tells reports, from the text of a task, whether the task may be about a wanted subject.
	tells func(text []byte) bool
	mayBe []bool // whether a subject may be wanted, by its index in [scan.subjects]
}

// firstAbout yields, for each queue, the first task about a wanted subject. For tasks beyond the counted ones,
// firstAbout calls the function tells, which reports from the text of a task whether the task may be about a wanted
// subject.
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

// uncounted returns the first task about a wanted subject behind the counted tasks of q; nil if there is none.
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

// load returns the task with the key k if it is about a wanted subject, otherwise nil.
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
