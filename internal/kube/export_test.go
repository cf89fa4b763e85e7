package kube

import "time"

// TellVersionsEvery makes the hub tell versions more often than once a minute.
func (h *Hub) TellVersionsEvery(d time.Duration) { h.objects.versionEvery = d }
