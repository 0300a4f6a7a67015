import com.alibaba.otter.canal.connector.core.spi.CanalMQProducer;
import com.alibaba.otter.canal.connector.kafka.producer.CanalKafkaProducer;
import com.alibaba.otter.canal.connector.rabbitmq.producer.CanalRabbitMQProducer;
import com.alibaba.otter.canal.instance.spring.SpringCanalInstanceGenerator;
import com.alibaba.otter.canal.meta.FileMixedMetaManager;
import com.alibaba.otter.canal.protocol.ClientIdentity;
import com.alibaba.otter.canal.protocol.position.Position;
import com.alibaba.otter.canal.server.CanalMQStarter;
import com.alibaba.otter.canal.server.embedded.CanalServerWithEmbedded;
import java.io.InputStream;
import java.util.Properties;
import java.util.concurrent.CountDownLatch;

/**
 * A Canal server that writes to Kafka or RabbitMQ, of the jars that are in Maven Central: Canal's own launcher is in none of them.
 *
 * <p>canal.properties, DESTINATION/instance.properties and instance.xml are read from the class path, as by Canal's own.
 * It says "canal is up" when it has started, and stores its cursor before it ends.
 */
public final class CanalMain {
    /**
     * Cursors in a file, as Canal keeps them, without a race of its 1.1.7: it notes that a client's cursor is to be stored
     * before it has the new one. A timer that comes in between stores the old one, or fails for ever if it is the first.
     */
    public static final class Cursors extends FileMixedMetaManager {
        @Override
        public void updateCursor(ClientIdentity client, Position position) {
            cursors.put(client, position);
            super.updateCursor(client, position);
        }
    }

    public static void main(String[] args) throws Exception {
        Thread.currentThread().setContextClassLoader(CanalMain.class.getClassLoader()); // for Spring to find Cursors
        String destination = args[0];
        Properties settings = new Properties();
        try (InputStream in = ClassLoader.getSystemResourceAsStream("canal.properties")) {
            settings.load(in);
        }
        SpringCanalInstanceGenerator generator = new SpringCanalInstanceGenerator();
        generator.setSpringXml("classpath:instance.xml");
        CanalServerWithEmbedded server = CanalServerWithEmbedded.instance();
        server.setCanalInstanceGenerator(generator);
        server.start();
        server.start(destination);

        boolean toRabbit = "rabbitmq".equalsIgnoreCase(settings.getProperty("canal.serverMode"));
        CanalMQProducer producer = toRabbit ? new CanalRabbitMQProducer() : new CanalKafkaProducer();
        try {
            producer.init(settings);
        } catch (Throwable failed) {
            failed.printStackTrace();
            System.exit(1);
        }
        CanalMQStarter sending = new CanalMQStarter(producer);
        sending.start(destination);

        CountDownLatch ended = new CountDownLatch(1);
        Runtime.getRuntime()
                .addShutdownHook(
                        new Thread(
                                () -> {
                                    server.stop(destination);
                                    server.stop();
                                    ended.countDown();
                                }));
        System.out.println("canal is up");
        ended.await();
    }
}
