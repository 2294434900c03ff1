#include "xfer/note.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/attr.h"
#include "base/fault.h"
#include "base/limits.h"
#include "base/num.h"

struct note {
	struct kv_list link;
	struct kv_note_in in;
};

void
kv_note_init(struct kv_note_queue *q)
{
	*q = (struct kv_note_queue){ 0 };
	pthread_mutex_init(&q->lock, NULL);
	kv_list_init(&q->notes);
}

static void
note_free(struct note *note)
{
	if (note)
		free(note->in.text);
	free(note);
}

void
kv_note_fini(struct kv_note_queue *q)
{
	struct note *note, *tmp;

	KV_LIST_FOREACH_SAFE(note, tmp, &q->notes, link)
		note_free(note);
	pthread_mutex_destroy(&q->lock);
}

/* A NUL follows the text, for those who know that there is none in it. */
static struct note *
note_new(const void *text, size_t text_len)
{
	struct note *note = KV_FAULT_POINT() ? NULL : calloc(1, sizeof(*note));

	if (!note)
		return NULL;
	note->in.text_len = text_len;
	note->in.text = KV_FAULT_POINT() ? NULL : malloc(text_len + 1);
	if (!note->in.text) {
		free(note);
		return NULL;
	}
	if (text_len)
		memcpy(note->in.text, text, text_len);
	note->in.text[text_len] = '\0';
	return note;
}

/* False: full. */
static bool
add(struct kv_note_queue *q, struct note *note)
{
	if (q->n >= KV_ENGINE_NOTES_MAX ||
	    q->bytes + note->in.text_len > KV_ENGINE_NOTES_BYTES_MAX)
		return false;
	kv_list_add_tail(&q->notes, &note->link);
	q->n++;
	q->bytes += note->in.text_len;
	return true;
}

int
kv_note_push(struct kv_note_queue *q, const void *name, size_t name_len,
	     const void *text, size_t text_len)
{
	struct note *note = note_new(text, text_len);
	bool added = false;

	if (!note)
		return -ENOMEM;
	memcpy(note->in.name, name,
	       kv_min_size(name_len, KV_NOTE_NAME_BYTES_MAX));
	KV_LOCKED(&q->lock)
		added = add(q, note);
	if (added)
		return 0;
	note_free(note);
	return -EBUSY;
}

size_t
kv_note_pop(struct kv_note_queue *q, struct kv_note_in *out, size_t max)
{
	struct note *note, *tmp;
	size_t n = 0;

	KV_LOCKED(&q->lock)
		KV_LIST_FOREACH_SAFE(note, tmp, &q->notes, link) {
			if (n == max)
				break;
			kv_list_del(&note->link);
			q->n--;
			q->bytes -= note->in.text_len;
			out[n++] = note->in;
			free(note);
		}
	return n;
}
