import io.debezium.engine.ChangeEvent;
import io.debezium.engine.DebeziumEngine;
import io.debezium.engine.format.JsonByteArray;
import java.io.InputStream;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.Properties;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.atomic.AtomicReference;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.serialization.ByteArraySerializer;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Debezium's engine, writing to Kafka; Debezium Server is in no Maven repository.
 *
 * <p>It reads the properties as Debezium Server names them: debezium.source.* for the engine and its connector,
 * debezium.sink.kafka.producer.* for the producer. It ends when its engine does, as Debezium Server does.
 */
public final class EngineMain {
    private static final Logger LOG = LoggerFactory.getLogger(EngineMain.class);

    public static void main(String[] args) throws Exception {
        Properties written = new Properties();
        try (InputStream in = Files.newInputStream(Path.of(args[0]))) {
            written.load(in);
        }
        Properties engine = under(written, "debezium.source.");
        engine.setProperty("name", written.getProperty("debezium.sink.type"));
        for (String part : List.of("key", "value")) {
            copy(written, "debezium.format." + part + ".schemas.enable", engine, part + ".converter.schemas.enable");
        }
        Properties to = under(written, "debezium.sink.kafka.producer.");
        KafkaProducer<byte[], byte[]> producer =
                new KafkaProducer<>(to, new ByteArraySerializer(), new ByteArraySerializer());
        CountDownLatch ended = new CountDownLatch(1);
        AtomicReference<Exception> failure = new AtomicReference<>();
        DebeziumEngine<ChangeEvent<byte[], byte[]>> running =
                DebeziumEngine.create(JsonByteArray.class)
                        .using(engine)
                        .using(
                                (success, message, error) -> {
                                    LOG.info(
                                            "Connector completed: success = '{}', message = '{}', error = '{}'",
                                            success,
                                            message,
                                            error,
                                            error);
                                    ended.countDown();
                                })
                        .notifying(
                                (events, committer) -> {
                                    for (ChangeEvent<byte[], byte[]> one : events) {
                                        producer.send(
                                                new ProducerRecord<>(one.destination(), one.key(), one.value()),
                                                (at, failed) -> failure.compareAndSet(null, failed));
                                    }
                                    producer.flush();
                                    if (failure.get() != null) {
                                        throw new IllegalStateException(failure.get());
                                    }
                                    for (ChangeEvent<byte[], byte[]> one : events) {
                                        committer.markProcessed(one);
                                    }
                                    committer.markBatchFinished();
                                })
                        .build();
        Runtime.getRuntime()
                .addShutdownHook(
                        new Thread(
                                () -> {
                                    try {
                                        running.close();
                                        ended.await();
                                    } catch (Exception alreadyEnded) {
                                        LOG.info("closing: {}", alreadyEnded.getMessage());
                                    }
                                }));
        ExecutorService thread = Executors.newSingleThreadExecutor();
        thread.execute(running);
        ended.await();
        thread.shutdown();
        producer.close();
    }

    private static Properties under(Properties all, String prefix) {
        Properties found = new Properties();
        for (String name : all.stringPropertyNames()) {
            if (name.startsWith(prefix)) {
                found.setProperty(name.substring(prefix.length()), all.getProperty(name));
            }
        }
        return found;
    }

    private static void copy(Properties from, String name, Properties to, String other) {
        if (from.containsKey(name)) {
            to.setProperty(other, from.getProperty(name));
        }
    }
}
