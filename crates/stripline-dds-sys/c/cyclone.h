/* The functions that Rust calls. In Cyclone DDS they are inline in headers, or take structures with
   a layout that depends on the build. Negative results are return codes of Cyclone DDS. */
#ifndef STRIPLINE_CYCLONE_H
#define STRIPLINE_CYCLONE_H

#include <stddef.h>
#include <stdint.h>

/* Called on a thread of Cyclone DDS, or on the thread of a writer in this process. */
typedef void (*stripline_dds_event)(void *context, int32_t end);
/* The priority is 1 for an error, 2 for a warning, and 3 for anything else. The message does not
   end with a zero. */
typedef void (*stripline_dds_log)(uint32_t priority, const char *message, size_t length);

/* A type of Stripline.idl. */
enum stripline_dds_type {
  STRIPLINE_DDS_FRAMES,
  STRIPLINE_DDS_FLOAT,
  STRIPLINE_DDS_COMPLEX_FLOAT,
  STRIPLINE_DDS_SHORT,
  STRIPLINE_DDS_COMPLEX_SHORT,
  STRIPLINE_DDS_OCTET,
  STRIPLINE_DDS_TYPES
};

/* The terms that an end offers or requests. */
struct stripline_dds_terms {
  /* 0: a reader does not get samples written before it joined. 1: it gets them, as long as the
     writer lives. */
  uint32_t is_transient_local;
  /* 0: best effort. */
  uint32_t is_reliable;
  /* The number of samples that a writer keeps for late readers, or a reader queues; 0 for all. */
  uint32_t depth;
  /* The longest time between two samples, in nanoseconds; 0 for any. */
  int64_t deadline_ns;
  /* The longest time for which a write may wait, in nanoseconds; 0 for no limit. */
  int64_t write_ns;
};

/* The events of an end. The structure must not move until the end is deleted. */
struct stripline_dds_events {
  /* The end has found another end, or lost one. */
  stripline_dds_event matched;
  /* There may be samples. Not called for a writer. */
  stripline_dds_event arrived;
  void *context;
};

/* A reader or a writer, and the topic that belongs to it alone. */
struct stripline_dds_end {
  int32_t topic;
  int32_t end;
};

/* A sample that was taken, in its serialised form. */
struct stripline_dds_sample {
  void *owner;
  const uint8_t *bytes;
  size_t length;
  uint64_t publication;
};

const char *stripline_dds_version(void);
const char *stripline_dds_message(int32_t code);
void stripline_dds_set_log(stripline_dds_log log);

/* Returns the file of the library, a text that stays valid; null if unknown. */
const char *stripline_dds_library(void);

/* Creates a domain of that number in this process, with a participant. The properties are null, or
   pairs of names and values that end with a pair of nulls. */
int32_t stripline_dds_open(uint32_t domain, const char *configuration, const char *const (*properties)[2],
                           int32_t *domain_out, int32_t *participant_out);
int32_t stripline_dds_create_writer(int32_t participant, uint32_t type, const char *topic,
                                    const struct stripline_dds_terms *terms,
                                    const struct stripline_dds_events *events,
                                    struct stripline_dds_end *end);
int32_t stripline_dds_create_reader(int32_t participant, uint32_t type, const char *topic,
                                    const struct stripline_dds_terms *terms,
                                    const struct stripline_dds_events *events,
                                    struct stripline_dds_end *end);
/* Creates a reader for use with a wait set. */
int32_t stripline_dds_create_polled_reader(int32_t participant, uint32_t type, const char *topic,
                                           const struct stripline_dds_terms *terms,
                                           struct stripline_dds_end *end);
/* Returns a wait set for the samples of a reader. */
int32_t stripline_dds_create_wait_set(int32_t participant, int32_t reader);
/* Waits until there is a sample. */
int32_t stripline_dds_wait(int32_t wait_set);
/* Deletes an entity. Returns once no event of the entity runs or can follow. */
int32_t stripline_dds_delete(int32_t entity);
/* Writes the number of the entity on the network. */
int32_t stripline_dds_guid(int32_t entity, uint8_t guid[16]);
/* Writes the number of the writer from which a sample came. */
int32_t stripline_dds_guid_of_publication(int32_t reader, uint64_t publication, uint8_t guid[16]);
/* Returns the number of readers that a writer has found. */
int32_t stripline_dds_matched_readers(int32_t writer);
/* Returns the number of writers that a reader has found. */
int32_t stripline_dds_matched_writers(int32_t reader);
/* Waits until all readers have received all written samples, but not longer than `longest_ns`. */
int32_t stripline_dds_wait_for_acks(int32_t writer, int64_t longest_ns);
int32_t stripline_dds_write_frames(int32_t writer, uint64_t key, uint64_t number, const uint8_t *bytes,
                                   uint32_t length);

struct stripline_dds_info {
  uint64_t sample_index;
  uint64_t time_ns;
  double rate_hz;
  double frequency_hz;
};
/* `elements` is the length of the sequence: two for a complex sample. */
int32_t stripline_dds_write_samples(int32_t writer, const struct stripline_dds_info *info,
                                    const void *samples, uint32_t elements);
/* Finds a writer (or reader) of that topic with another type. Returns 1 if it found one, and writes
   the name of that type. */
int32_t stripline_dds_find_other_type(int32_t participant, uint32_t type, const char *topic,
                                      int32_t of_writers, char *name, size_t length);
/* Returns 1 for a sample, 2 for a sample without data, and 0 for no sample. */
int32_t stripline_dds_take(int32_t reader, struct stripline_dds_sample *sample);
void stripline_dds_release(struct stripline_dds_sample *sample);

#endif
