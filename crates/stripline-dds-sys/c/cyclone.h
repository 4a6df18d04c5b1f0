/* What Rust calls: functions of Cyclone DDS that are inline in its headers, or take structures whose
   layout depends on how it was built. Negative results are its return codes. */
#ifndef STRIPLINE_CYCLONE_H
#define STRIPLINE_CYCLONE_H

#include <stddef.h>
#include <stdint.h>

/* Called on a thread of Cyclone DDS, or on that of a writer in this process. */
typedef void (*stripline_dds_event)(void *context, int32_t end);
/* Priority: 1 an error, 2 a warning, 3 anything else. The message has no zero at its end. */
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

/* What an end is to offer or to ask for. */
struct stripline_dds_terms {
  /* 0: what was written before a reader came is not for it. 1: as long as the writer lives. */
  uint32_t is_transient_local;
  /* 0: best effort. */
  uint32_t is_reliable;
  /* The samples that a writer keeps for late readers, and that wait in a reader; 0: all. */
  uint32_t depth;
  /* The longest time between two samples, in nanoseconds; 0: any. */
  int64_t deadline_ns;
  /* How long a write may wait, in nanoseconds; 0: without limit. */
  int64_t write_ns;
};

/* The events of an end. It stays where it is until the end is deleted. */
struct stripline_dds_events {
  /* It has found another end, or lost one. */
  stripline_dds_event matched;
  /* There may be samples; not of a writer. */
  stripline_dds_event arrived;
  void *context;
};

/* A reader or a writer, and the topic that it has for itself. */
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

/* The file of the library, a text that stays; null: unknown. */
const char *stripline_dds_library(void);

/* Makes a domain of that number in this process, with a participant. Its properties are null, or
   pairs of names and values, behind which comes a pair of nulls. */
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
/* Makes a reader that a wait set waits for. */
int32_t stripline_dds_create_polled_reader(int32_t participant, uint32_t type, const char *topic,
                                           const struct stripline_dds_terms *terms,
                                           struct stripline_dds_end *end);
/* Returns a wait set for the samples of a reader. */
int32_t stripline_dds_create_wait_set(int32_t participant, int32_t reader);
/* Waits until there is a sample. */
int32_t stripline_dds_wait(int32_t wait_set);
/* Returns once no event of it runs or can come. */
int32_t stripline_dds_delete(int32_t entity);
/* The number that the entity has on the network. */
int32_t stripline_dds_guid(int32_t entity, uint8_t guid[16]);
/* That of a writer that a sample came from. */
int32_t stripline_dds_guid_of_publication(int32_t reader, uint64_t publication, uint8_t guid[16]);
/* How many readers a writer has found. */
int32_t stripline_dds_matched_readers(int32_t writer);
/* How many writers a reader has found. */
int32_t stripline_dds_matched_writers(int32_t reader);
/* Waits until all readers have what was written, but not longer. */
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
/* Finds a writer (or reader) of that topic with another type: 1, and the name of that type. */
int32_t stripline_dds_find_other_type(int32_t participant, uint32_t type, const char *topic,
                                      int32_t of_writers, char *name, size_t length);
/* 1: a sample; 2: one without data; 0: nothing. */
int32_t stripline_dds_take(int32_t reader, struct stripline_dds_sample *sample);
void stripline_dds_release(struct stripline_dds_sample *sample);

#endif
