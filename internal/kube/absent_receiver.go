package kube

import "context"

// vanishing is the Receiver of an Absences.
type vanishing struct{ *Absences }

func (v *vanishing) Stored(context.Context, View) (string, error) { return "", nil }

func (v *vanishing) Left(context.Context, View, []string) error { return nil }

func (v *vanishing) Listed(_ context.Context, list List) error {
	v.mu.Lock()
	defer v.mu.Unlock()
	if _, watched := v.places[list.View.Source]; !watched {
		return nil
	}
	v.listed[list.View.Source] = true
	for _, e := range v.all() {
		if e.source == list.View.Source {
			e.settled = false
		}
	}
	signal(v.wake)
	return nil
}

func (v *vanishing) Changed(_ context.Context, batch Batch) error {
	if len(batch.Changes) == 0 {
		return nil
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.touched[batch.Source] == nil {
		v.touched[batch.Source] = map[objectKey]bool{}
	}
	for _, change := range batch.Changes {
		v.touched[batch.Source][change.Object.key()] = true
	}
	signal(v.wake)
	return nil
}
