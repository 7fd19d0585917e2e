package main

import (
	"bytes"
	"io"
	"net/http"
)

var (
	key    = []byte(`"NodeNames":`)
	before = []byte(`{"Nodes":null,"NodeNames":`)
	after  = []byte(`,"FailedNodes":{},"FailedAndUnresolvableNodes":{},"Error":""}`)
)

// echo finds all nodes feasible. kube-scheduler writes NodeNames last, so they end with the body.
func echo(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	at := bytes.LastIndex(body, key)
	end := bytes.LastIndexByte(body, ']')
	if err != nil || at < 0 || end < at {
		http.Error(w, "there are no NodeNames", http.StatusBadRequest)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.Write(bytes.Join([][]byte{before, body[at+len(key) : end+1], after}, nil))
}

// abstain has no opinion.
func abstain(w http.ResponseWriter, r *http.Request) {
	io.Copy(io.Discard, r.Body)
	w.Header().Set("Content-Type", "application/json")
	w.Write([]byte("[]"))
}
